//! `noisescale data`: what data are there, and how to get the rest.
//!
//! The digits are in the program. MNIST, Fashion-MNIST and CIFAR-10 come into the
//! data folder by `fetch`, over the network, or by `import`, from files that one has.

mod fetch;
mod list;

use crate::examples;
use crate::output::print;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use engine::data::Store;
use spec::DatasetName;
use std::path::{Path, PathBuf};

/// The commands under `noisescale data`.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum DataCommand {
    /// Show which data sets are there, where, and whether they are intact
    #[command(after_help = examples::DATA_LIST)]
    List {
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Download data sets from public mirrors into the data folder
    ///
    /// Every file is checked against its published checksum. What is already there and intact is not
    /// downloaded again. Proxies are taken from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY;
    /// NOISESCALE_MIRROR names a mirror of your own, and NOISESCALE_DATA another data folder.
    #[command(after_help = examples::DATA_FETCH)]
    Fetch {
        /// Which data sets
        #[arg(required = true, value_name = "NAME", value_parser = dataset_parser())]
        names: Vec<DatasetName>,
    },
    /// Import a data set from local files
    ///
    /// The official files are found by their names, plain, as .gz, or in a .tar.gz or .zip, and are
    /// checked against their published checksums before anything is written.
    #[command(after_help = examples::DATA_IMPORT)]
    Import {
        /// Which data set
        #[arg(value_name = "NAME", value_parser = dataset_parser())]
        name: DatasetName,
        /// A file, a folder or an archive
        path: PathBuf,
    },
}

/// Runs a command. Results go to standard output, progress to standard error.
pub fn run(command: &DataCommand) -> anyhow::Result<()> {
    let store = Store::from_environment();
    match command {
        DataCommand::List { json } => list::list(&store, *json),
        DataCommand::Fetch { names } => names
            .iter()
            .try_for_each(|name| fetch::fetch(&store, *name)),
        DataCommand::Import { name, path } => import(&store, *name, path),
    }
}

fn import(store: &Store, name: DatasetName, path: &Path) -> anyhow::Result<()> {
    let imported = store.import(name, path)?;
    let files = imported.written.len();
    let mut text = format!(
        "{name}: imported and verified {files} {} into {}\n",
        if files == 1 { "file" } else { "files" },
        imported.folder.display()
    );
    if !imported.missing.is_empty() {
        text += &format!(
            "{name}: still missing {}; import them too, or run `noisescale data fetch {name}`\n",
            imported.missing.join(", ")
        );
    }
    print(&text)
}

fn dataset_parser() -> impl TypedValueParser<Value = DatasetName> {
    PossibleValuesParser::new(DatasetName::ALL.map(DatasetName::id)).map(|name| {
        let mut known = DatasetName::ALL.into_iter();
        known
            .find(|dataset| dataset.id() == name)
            .expect("the parser lets only known names through")
    })
}
