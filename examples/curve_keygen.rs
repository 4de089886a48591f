//! Makes a certificate: a new pair of CURVE keys in a public and a secret file.
//!
//!     cargo run --example curve_keygen -- client
//!
//! The public file is for those who are to know its owner: a server's for its clients, a client's for
//! the folder in which the server looks for who may come in. The secret file stays where it is.

use std::path::PathBuf;

use clap::Parser;
use zkit::{Error, Result, ZCert};

/// Makes a pair of CURVE keys, FILE for others and FILE_secret for its owner alone.
#[derive(Parser)]
struct Args {
    /// Where to put the public file; the secret file goes beside it.
    #[arg(default_value = "mycert.txt")]
    file: PathBuf,
    /// Whose certificate it is.
    #[arg(long)]
    name: Option<String>,
    /// What else is to be known about the owner; as often as needed.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    /// Replace the files that are there. Whoever knows the old public key does not know the new one.
    #[arg(long)]
    force: bool,
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("it is not NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn main() -> Result<()> {
    sigpipe::reset();
    let args = Args::parse();
    let mut secret = args.file.clone().into_os_string();
    secret.push("_secret");
    let secret = PathBuf::from(secret);

    for file in [&args.file, &secret] {
        // A link counts, wherever it leads.
        if file.symlink_metadata().is_ok() && !args.force {
            return Err(Error::other(format!("{file:?} is there already; --force replaces it")));
        }
    }

    let mut cert = ZCert::new()?;
    if let Some(name) = &args.name {
        cert.set_meta("name", name)?;
    }
    for (name, value) in &args.meta {
        cert.set_meta(name, value)?;
    }
    cert.save(&args.file)?;

    println!("Public key: {}", cert.public_text());
    println!("For others: {}", args.file.display());
    println!("For nobody else: {}", secret.display());
    Ok(())
}
