//! Facts of a build that only the compiler's environment knows, for `windlass version`. Nothing here depends on the time or on
//! the place of the checkout: the same sources give the same binary.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Given by `cargo xtask dist` and by packagers: asking git here would build the program anew with every commit.
    println!("cargo::rerun-if-env-changed=WINDLASS_COMMIT");
    let fact = |name: &str| std::env::var(name).unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rustc-env=WINDLASS_BUILD_COMMIT={}", fact("WINDLASS_COMMIT"));
    println!("cargo::rustc-env=WINDLASS_BUILD_TARGET={}", fact("TARGET"));
    println!("cargo::rustc-env=WINDLASS_BUILD_COMPILER={}", compiler(&fact("RUSTC")));
    // `release` also for profiles that inherit from it; the level tells them apart.
    println!("cargo::rustc-env=WINDLASS_BUILD_OPTIMISATION={}", fact("OPT_LEVEL"));
}

/// What the compiler says of itself: `rustc 1.95.0 (59807616e 2026-04-14)`.
fn compiler(rustc: &str) -> String {
    let said = Command::new(rustc).arg("--version").output();
    match said {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}
