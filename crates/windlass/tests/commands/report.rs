//! The page of a preview, in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;

fn page(directory: &Path) -> PathBuf {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["simulate", "upgrade", "--to", "v1.32.0", "--machine-duration", "8m", "-o", "html"])
        .args(["--snapshot", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/prod.json")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = directory.join("report.html");
    std::fs::write(&file, output.stdout).unwrap();
    file
}

/// Runs Chromium on the page, and says what it printed.
fn chromium(directory: &Path, page: &Path, arguments: &[&str]) -> String {
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,1400"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .current_dir(directory)
        .output();
    let output =
        output.unwrap_or_else(|error| panic!("chromium is needed, cargo xtask test installs it: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_of_a_preview_shows_everything_and_loads_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path());
    let text = std::fs::read_to_string(&page).unwrap();
    for outside in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
        assert!(!text.contains(outside), "the page would load {outside}");
    }
    let shown = chromium(directory.path(), &page, &["--dump-dom"]);
    for (part, least) in [
        ("<svg ", 2),
        ("class=\"lane cp\"", 1),
        ("class=\"band\"", 3),
        ("class=\"hook\"", 4),
        ("<rect class=\"create\"", 5),
        ("<rect class=\"delete\"", 5),
        ("workers web v1.30.0 -&gt; v1.32.0", 2),
        ("BeforeClusterUpgrade", 1),
        ("AcmeBox is replaced by DevMachine", 1),
    ] {
        let found = shown.matches(part).count();
        assert!(found >= least, "{part} is there {found} times:\n{shown}");
    }
}

#[test]
fn the_page_of_a_preview_is_light_or_dark_as_its_reader_wants() {
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path());
    let picture = |name: &str, scheme: &str| {
        let file = directory.path().join(name);
        let (screenshot, scheme) = (
            format!("--screenshot={}", file.display()),
            format!("--blink-settings=preferredColorScheme={scheme}"),
        );
        chromium(directory.path(), &page, &[&screenshot, &scheme]);
        std::fs::read(file).unwrap()
    };
    let (dark, light) = (picture("dark.png", "0"), picture("light.png", "1"));
    for picture in [&dark, &light] {
        assert!(picture.starts_with(b"\x89PNG") && picture.len() > 20_000, "{} bytes", picture.len());
    }
    assert_ne!(dark, light);
    if let Some(kept) = std::env::var_os("WINDLASS_KEEP_PICTURES") {
        std::fs::write(Path::new(&kept).join("dark.png"), dark).unwrap();
        std::fs::write(Path::new(&kept).join("light.png"), light).unwrap();
    }
}
