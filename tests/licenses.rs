//! What a program has by zkit is under licenses that `docs/licenses.md` lists, each crate with its own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What Cargo knows of the workspace and all that it depends on, on Linux.
fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["metadata", "--format-version=1", "--locked", "--all-features"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The crates that are linked into a program with zkit, and their licenses: neither those of tests and
/// build scripts nor macros.
fn linked() -> BTreeMap<String, String> {
    let metadata = metadata();
    let by_id = |list: &'static str| -> BTreeMap<String, Value> {
        let list = match list {
            "packages" => &metadata["packages"],
            _ => &metadata["resolve"]["nodes"],
        };
        let entries = list.as_array().unwrap().iter();
        entries.map(|entry| (entry["id"].as_str().unwrap().to_owned(), entry.clone())).collect()
    };
    let (packages, nodes) = (by_id("packages"), by_id("nodes"));
    let is_macro = |package: &Value| {
        let targets = package["targets"].as_array().unwrap();
        targets.iter().any(|target| target["kind"][0] == "proc-macro")
    };
    let root = packages.iter().find(|(_, package)| package["name"] == "zkit").unwrap().0;
    let mut reached = BTreeSet::new();
    let mut waiting = vec![root.clone()];
    while let Some(id) = waiting.pop() {
        if is_macro(&packages[&id]) || !reached.insert(id.clone()) {
            continue;
        }
        for dependency in nodes[&id]["deps"].as_array().unwrap() {
            let kinds = dependency["dep_kinds"].as_array().unwrap();
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                waiting.push(dependency["pkg"].as_str().unwrap().to_owned());
            }
        }
    }
    let text = |package: &Value, field: &str| package[field].as_str().unwrap_or("none").to_owned();
    reached
        .iter()
        .map(|id| &packages[id])
        .map(|package| (text(package, "name"), text(package, "license").replace('/', " OR ")))
        .collect()
}

#[test]
fn every_crate_that_is_linked_is_listed_with_its_license() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/licenses.md");
    let page = std::fs::read_to_string(page).unwrap();
    // "| `name` | license |"
    let listed: BTreeMap<String, String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "))
        .map(|(name, license)| (name.to_owned(), license.to_owned()))
        .collect();
    assert_eq!(listed, linked());
}

/// One of these, or a choice that has one of them, asks for no more than to be named.
#[test]
fn no_license_asks_for_more_than_the_page_says() {
    const KNOWN: [&str; 4] = ["MIT", "Apache-2.0", "BSD-3-Clause", "ISC"];
    for (name, license) in linked() {
        let choices = license.split(" OR ").map(|choice| choice.trim_matches(['(', ')']));
        assert!(choices.clone().any(|choice| KNOWN.contains(&choice)), "{name}: {license}");
    }
}
