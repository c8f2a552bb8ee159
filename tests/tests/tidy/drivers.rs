//! A driver around another one forwards by the macro, and has the methods that it says.

use super::{before_tests, is_of_tests, none, root, sources};

/// Drivers of storage of their own.
const STORAGE: &[&str] = &[
    "agg-core/store/src/driver/blob.rs",
    "agg-core/store/src/driver/fake.rs",
    "agg-core/store/src/driver/posix.rs",
    "formats/src/set_driver.rs",
];

/// What is wrong with a file that implements a driver around another one.
fn wrong_in(name: &str, text: &str) -> Vec<String> {
    let text = before_tests(text);
    let Some((_, body)) = text.split_once("forward_driver! {\n") else {
        return vec![format!("{name}: a driver that does not use forward_driver!")];
    };
    let here = body.split_once("here: [").and_then(|(_, rest)| rest.split_once(']'));
    let methods = here.map_or("", |(methods, _)| methods).split_whitespace();
    let missing = methods.filter(|method| !body.contains(&format!("\n    fn {method}(")));
    missing.map(|method| format!("{name}: {method} is listed, but not there")).collect()
}

#[test]
fn drivers_around_a_driver_forward_what_they_do_not_list() {
    let files = sources(&root());
    let implements = |(name, text): &&(String, String)| {
        let is_own = STORAGE.contains(&name.as_str());
        !is_own && !is_of_tests(name) && before_tests(text).contains("\nimpl Driver for ")
    };
    let wrappers: Vec<_> = files.iter().filter(implements).collect();
    assert!(wrappers.len() >= 4, "the search finds wrappers");
    none(wrappers.iter().flat_map(|(name, text)| wrong_in(name, text)).collect());
}

#[test]
fn a_method_that_is_only_listed_is_found() {
    let good = "forward_driver! {\n here: [name],\n }\n\n    fn name(&self) {}\n";
    assert!(wrong_in("x", good).is_empty());
    assert_eq!(wrong_in("x", &good.replace("[name]", "[name size]")).len(), 1);
    assert_eq!(wrong_in("x", "impl Driver for X {}").len(), 1);
}
