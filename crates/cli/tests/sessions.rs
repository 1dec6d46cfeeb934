//! The command sessions in the documents and under `tests/cmd` are run, so that they cannot drift.

#[test]
fn sessions_print_what_the_documents_say() {
    trycmd::TestCases::new().case("tests/cmd/*.md");
}
