//! What does not compile, and is not meant to.
//!
//! Each file under `tests/ui` has a wrong and a right form. The right one must compile, and the
//! wrong one fail with the error that its first line names. That is checked with the library as
//! it is built already, and by the number of the error: what the compiler says besides changes
//! from one version to the next.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where the dependencies of this test are, and with them the library.
fn dependencies() -> PathBuf {
    let test = std::env::current_exe().expect("the test binary");
    test.parent().expect("its directory").to_owned()
}

/// The library, as it was built last. There may be others, of other profiles or features.
fn libraries() -> Vec<PathBuf> {
    let files = fs::read_dir(dependencies()).unwrap().map(|entry| entry.unwrap().path());
    let mut libraries: Vec<PathBuf> = files
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libzkit-") && name.ends_with(".rlib")
        })
        .collect();
    libraries.sort_by_key(|path| fs::metadata(path).and_then(|file| file.modified()).ok());
    libraries.reverse();
    assert!(!libraries.is_empty(), "no library in {}", dependencies().display());
    libraries
}

fn compile(source: &Path, form: &str, library: &Path, output: &Path) -> Output {
    let compiler = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    Command::new(compiler)
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--cap-lints=allow"])
        .args(["--cfg", form, "--check-cfg=cfg(right,wrong)"])
        .arg("--extern")
        .arg(format!("zkit={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", dependencies().display()))
        .arg("--out-dir")
        .arg(output)
        .arg(source)
        .output()
        .expect("the compiler")
}

fn check(name: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui").join(name);
    let text = fs::read_to_string(&source).unwrap();
    let number = text.strip_prefix("// ").and_then(|line| line.split(':').next()).unwrap();
    let output = tempfile::tempdir().unwrap();

    let libraries = libraries();
    let right = libraries
        .iter()
        .find(|library| compile(&source, "right", library, output.path()).status.success());
    let Some(library) = right else {
        let compiled = compile(&source, "right", &libraries[0], output.path());
        panic!("the right form:\n{}", String::from_utf8_lossy(&compiled.stderr));
    };
    let compiled = compile(&source, "wrong", library, output.path());
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(!compiled.status.success(), "the wrong form compiles");
    assert!(errors.contains(&format!("error[{number}]")), "no {number} in:\n{errors}");
}

macro_rules! does_not_compile {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(concat!(stringify!($name), ".rs"));
            }
        )*

        #[test]
        fn every_file_is_checked() {
            let ui = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
            for entry in fs::read_dir(ui).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap();
                assert!([$(stringify!($name)),*].contains(&name), "{name}");
            }
        }
    };
}

does_not_compile! {
    descriptor_outlives_socket
    frame_lent_for_writing
    frame_written_in_place
    message_of_borrowed_text
    poller_outlives_socket
    socket_dropped_while_polled
    socket_shared_by_arc
    socket_shared_by_reference
}
