//! The README and the pages about stories and previews are scenarios too, and their paths are those of a user who has just checked
//! the project out. A test of its own, because the current directory belongs to the whole process.

#[test]
fn the_readme_prints_what_it_says() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::env::set_current_dir(root).unwrap();
    trycmd::TestCases::new().case("README.md").case("docs/stories.md").case("docs/preview.md");
}
