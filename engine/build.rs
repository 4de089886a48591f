//! Compiles libzmq, unless the build links the system's.

use std::env;
use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// What zkit needs of a system's libzmq: `ZMQ_ZAP_ENFORCE_DOMAIN`.
const OLDEST: &str = "4.3.0";

/// Set where this program runs to [`unpack`] the sources.
const UNPACKING: &str = "ZKIT_ENGINE_UNPACKING";

fn main() {
    if env::var_os(UNPACKING).is_some() {
        return unpack();
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=platform");
    if links_the_systems() {
        check_system();
        return;
    }
    check_target();
    // Archive and assertions name their sources by relative paths, so that neither depends on the folder.
    let package = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(var("OUT_DIR"));
    env::set_current_dir(&out).unwrap_or_else(|error| {
        fail(format_args!("cannot work in {}: {error}", out.display()));
    });
    check_compiler();
    let sodium = sodium();
    sources().unwrap_or_else(|error| fail(format_args!("cannot unpack libzmq's sources: {error}")));
    compile(&package.join("platform"), sodium.as_deref()).unwrap_or_else(|error| {
        fail(format_args!("libzmq does not compile for {}: {error}\n{OTHER_WAY}", var("TARGET")));
    });
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static:+whole-archive={ARCHIVE}");
}

/// Whether a configuration of Cargo's names another libzmq for the crate zmq-sys.
fn links_the_systems() -> bool {
    // Cargo then leaves the build script of zmq-sys out, which would tell where it compiled its own. The
    // configuration may also say that none but this engine is wanted.
    let compiled = env::var_os("DEP_ZMQ_LIB").is_some();
    let this = env::var("DEP_ZMQ_ENGINE").is_ok_and(|engine| engine == "zkit");
    !compiled && !this
}

/// A name of its own, so that no search finds the archive of zmq-sys in its place.
const ARCHIVE: &str = "zkit-libzmq";

/// Where the sources are, in `OUT_DIR`.
const SOURCES: &str = "libzmq/source/src";
const HEADERS: &str = "libzmq/source/include";

/// Puts libzmq's sources there.
///
/// zeromq-src has them, and gives them away only when it has compiled them, its own way. So this program
/// runs a second time, for zeromq-src, and a third time for each file, as a compiler that does nothing.
fn sources() -> Result<(), Box<dyn Error>> {
    let this = env::current_exe()?;
    fs::create_dir_all("libzmq")?;
    let unpacking = Command::new(&this)
        .env(UNPACKING, "1")
        .env("OUT_DIR", "libzmq")
        .env("CXX", &this)
        .env(format!("CXX_{}", var("TARGET")), &this)
        .env("AR", &this)
        .env(format!("AR_{}", var("TARGET")), &this)
        .output()?;
    if !unpacking.status.success() {
        return Err(String::from_utf8_lossy(&unpacking.stderr).into());
    }
    Ok(())
}

fn unpack() {
    let is_compiler = env::args_os().len() > 1;
    if !is_compiler {
        zeromq_src::Build::new().build();
    }
}

fn compile(platform: &Path, sodium: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++11")
        // In every profile: a debug build is of the program, and few step through libzmq. Its debug
        // information comes by CXXFLAGS.
        .opt_level(3)
        .debug(false)
        .warnings(false)
        .define("ZMQ_STATIC", None)
        .include(platform)
        .include(HEADERS)
        .include(SOURCES);
    if let Some(include) = sodium {
        build.define("ZMQ_HAVE_CURVE", None).define("ZMQ_USE_LIBSODIUM", None).include(include);
    }
    if has_strlcpy() {
        build.define("ZMQ_HAVE_STRLCPY", None);
    }
    fs::write("libzmq.cpp", unit()?)?;
    build.file("libzmq.cpp").out_dir(".").cargo_metadata(false).try_compile(ARCHIVE)?;
    // The C++ library, behind the archive.
    let name = env::var("CXXSTDLIB").ok();
    println!("cargo::rerun-if-env-changed=CXXSTDLIB");
    let default = match var("CARGO_CFG_TARGET_OS").as_str() {
        "linux" => "stdc++",
        "android" => "c++_shared",
        _ => "c++",
    };
    let name = name.unwrap_or_else(|| default.into());
    if !name.is_empty() {
        println!("cargo::rustc-link-lib={name}");
    }
    Ok(())
}

/// All of libzmq as one source file, so that it is one object: a linker takes all of it or nothing. It
/// also compiles in a quarter of the time, and calls between its parts become shorter.
fn unit() -> Result<String, Box<dyn Error>> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(SOURCES)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // WebSockets are a draft of libzmq's, and ask no authenticator.
        if name.ends_with(".cpp") && !name.starts_with("ws") {
            parts.push(name);
        }
    }
    parts.sort();
    Ok(parts.iter().map(|part| format!("#include \"{SOURCES}/{part}\"\n")).collect())
}

fn has_strlcpy() -> bool {
    let declared = "#include <string.h>\nsize_t copy (char *to, const char *from)\n{\n    \
                    return strlcpy (to, from, 1);\n}\n";
    try_compile(compiler().cargo_warnings(false), "strlcpy", declared).is_ok()
}

/// Where `sodium.h` is, if CURVE is wanted.
fn sodium() -> Option<PathBuf> {
    env::var_os("CARGO_FEATURE_CURVE")?;
    // libsodium-sys-stable says nothing of a header where every compiler looks.
    let include = env::var_os("DEP_SODIUM_INCLUDE").map(PathBuf::from);
    let include = include.unwrap_or_else(|| PathBuf::from("/usr/include"));
    let mut trial = compiler();
    trial.include(&include);
    if let Err(error) = try_compile(&trial, "sodium", "#include <sodium.h>\n") {
        fail(format_args!(
            "there is no sodium.h in {}, which CURVE needs: {error}\nInstall libsodium's headers (Debian: \
             libsodium-dev), or unset SODIUM_LIB_DIR and SODIUM_USE_PKG_CONFIG to compile libsodium with \
             the program, or leave the feature \"curve\" out.",
            include.display(),
        ));
    }
    Some(include)
}

fn check_target() {
    if env::var_os("CARGO_CFG_UNIX").is_none() {
        fail(format_args!(
            "{} is not a Unix: zkit runs on Linux, Android, macOS and the BSDs.",
            var("TARGET")
        ));
    }
}

fn check_compiler() {
    let hello = "#include <string>\nstd::string hello ()\n{\n    return \"hello\";\n}\n";
    if let Err(error) = try_compile(&compiler(), "compiler", hello) {
        fail(format_args!(
            "no C++ compiler works for {}: {error}\nInstall one (Debian: g++, for another target \
             g++-TRIPLE; Fedora: gcc-c++; Alpine: g++; macOS: xcode-select --install), or name one in the \
             variable CXX. {OTHER_WAY}",
            var("TARGET"),
        ));
    }
}

const OTHER_WAY: &str = "To compile no libzmq, link the system's: cargo/system-libzmq.toml in zkit's \
                         repository says how.";

fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++11").warnings(false);
    build
}

fn try_compile(compiler: &cc::Build, name: &str, source: &str) -> Result<(), Box<dyn Error>> {
    let file = Path::new("trials").join(name).with_extension("cpp");
    fs::create_dir_all("trials")?;
    fs::write(&file, source)?;
    compiler.clone().file(file).out_dir("trials").try_compile_intermediates()?;
    Ok(())
}

/// Where the system says which libzmq it has, it must be one that will do.
fn check_system() {
    let Ok(found) = pkg_config::Config::new().cargo_metadata(false).probe("libzmq") else {
        return; // The linker says whether there is one.
    };
    let numbers = |version: &str| -> Vec<u32> {
        version.split('.').map_while(|number| number.parse().ok()).collect()
    };
    if numbers(&found.version) < numbers(OLDEST) {
        fail(format_args!(
            "the system's libzmq is {}, and zkit needs {OLDEST} or newer. Install a newer one, or leave \
             out the configuration that links it ([target.TRIPLE.zmq]): then zkit compiles its own.",
            found.version
        ));
    }
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| fail(format_args!("Cargo sets {name}: {error}")))
}

fn fail(why: impl Display) -> ! {
    eprintln!("zkit-engine: {why}");
    exit(1);
}
