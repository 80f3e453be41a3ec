//! Runs the scenarios: Markdown files with commands and what they print. `cargo xtask bless` rewrites the
//! expected output.

#[test]
fn scenarios_print_what_they_say() {
    trycmd::TestCases::new().case("tests/scenarios/*.md");
}
