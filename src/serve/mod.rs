//! `noisescale serve`: a page that one keeps open, showing studies as they grow.
//!
//! A thread for every study reads its folder again each second ([`watch`]); the pages
//! are those of the report, made from the same parts; a browser asks which parts have
//! changed and fetches those. Nothing is written, no path of a request reaches the disk
//! ([`site`]), and only this machine is answered unless the user says otherwise
//! ([`access`]).

mod access;
mod answer;
mod found;
mod http;
mod pace;
mod server;
mod site;
mod watch;

use crate::cli::ServeArgs;
use crate::failure::Mistake;
use crate::output::say;
use crate::studies;
use access::{Access, Names, Token};
use anyhow::{Context, Result};
use server::Limits;
use site::Site;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use watch::Watched;

/// Serves the pages of studies until it is stopped.
pub fn run(args: &ServeArgs) -> Result<()> {
    for dir in &args.dirs {
        studies::copy_in(dir)?;
    }
    let listener = bind(args.host, args.port)?;
    let address = listener.local_addr().context("cannot tell the port")?;
    let local = args.host.is_loopback();
    let token = match args.token || !local {
        true => Some(Token::random(address.port()).context("cannot make a token")?),
        false => None,
    };
    say!("{}", welcome(args.dirs.len(), address, token.as_ref()));
    let names = if local { Names::Local } else { Names::Any };
    let studies = watched(&args.dirs);
    for study in &studies {
        let study = Arc::clone(study);
        std::thread::spawn(move || study.watch());
    }
    let site = Site::new(Access::new(names, token), studies);
    server::serve(&listener, Limits::default(), Arc::new(site));
    Ok(())
}

fn bind(host: IpAddr, port: u16) -> Result<TcpListener> {
    TcpListener::bind((host, port)).map_err(|error| {
        let at = SocketAddr::new(host, port);
        Mistake(match error.kind() {
            ErrorKind::AddrInUse => format!(
                "port {port} of {host} is taken; give another with --port, or --port 0 for any free one"
            ),
            ErrorKind::PermissionDenied => {
                format!("{at}: not allowed; give a port above 1023 with --port")
            }
            ErrorKind::AddrNotAvailable => {
                format!("{host}: not an address of this machine; give one with --host")
            }
            _ => format!("{at}: cannot listen there: {error}"),
        })
        .into()
    })
}

/// The studies with their names, and with those for addresses: slugs of their folders, made unique.
fn watched(dirs: &[PathBuf]) -> Vec<Arc<Watched>> {
    let above = match dirs.len() {
        1 => Vec::new(),
        _ => vec![site::home()],
    };
    let mut keys: Vec<String> = Vec::new();
    for dir in dirs {
        let name = studies::folder_name(dir);
        let slug = match ::report::slug(&name) {
            slug if slug.is_empty() => "study".to_string(),
            slug => slug,
        };
        let numbered = (2..).map(|number| format!("{slug}-{number}"));
        let free = std::iter::once(slug.clone())
            .chain(numbered)
            .find(|key| !keys.contains(key));
        keys.extend(free);
    }
    let names = studies::folder_names(dirs.iter().map(PathBuf::as_path));
    (keys.into_iter().zip(names).zip(dirs))
        .map(|((key, name), dir)| Arc::new(Watched::new(key, name, dir, above.clone())))
        .collect()
}

fn welcome(studies: usize, address: SocketAddr, token: Option<&Token>) -> String {
    // "Any address" is not one that can be opened.
    let host = match address.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => "127.0.0.1".to_string(),
        ip if ip.is_unspecified() => "[::1]".into(),
        IpAddr::V6(ip) => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    let query = token.map_or_else(String::new, |token| format!("?token={}", token.secret()));
    let elsewhere = match address.ip().is_unspecified() {
        true => "; from elsewhere, with this machine's name",
        false => "",
    };
    let studies = match studies {
        1 => "1 study".to_string(),
        several => format!("{several} studies"),
    };
    format!(
        "Serving {studies} at http://{host}:{}/{query} (Ctrl-C ends it{elsewhere})",
        address.port()
    )
}
