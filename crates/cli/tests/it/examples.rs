//! Every example renders to what it says it does.

use std::path::Path;

use crate::sandbox::Sandbox;

#[test]
fn examples_render_as_they_say() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for entry in std::fs::read_dir(examples).unwrap() {
        let directory = entry.unwrap().path();
        let at = |name: &str| directory.join(name).to_str().unwrap().to_owned();
        // Programs in containers are run where containers can be.
        if !Path::new(&at("expected.yaml")).exists() {
            continue;
        }
        let mut arguments = vec!["render".to_owned(), at("xr.yaml"), at("composition.yaml")];
        if Path::new(&at("functions.yaml")).exists() {
            arguments.push(at("functions.yaml"));
        }
        for (flag, file) in
            [("-o", "observed.yaml"), ("-e", "required.yaml"), ("-e", "grant.yaml"), ("--xrd", "xrd.yaml")]
        {
            if Path::new(&at(file)).exists() {
                arguments.extend([flag.to_owned(), at(file)]);
            }
        }
        let expected = std::fs::read_to_string(at("expected.yaml")).unwrap();
        if expected.contains("kind: Context\n") {
            arguments.push("--include-context".to_owned());
        }
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let printed = Sandbox::new().run(&arguments).ok();
        assert_eq!(printed, expected, "{}", directory.display());
    }
}
