//! A study that is watched: its folder is read again every second, and what its page
//! shows is worked out anew when records have come in.
//!
//! What fails (a folder that is gone, a study file that was damaged) is shown on the
//! page, above what was known before, until it is mended.

use super::found::Found;
use super::pace::Pace;
use crate::folder::Folder;
use crate::report::go_on;
use ::report::{Figure, Link, Page, PageOptions, Part, Place, Standing};
use analysis::Findings;
use anyhow::{Result, anyhow};
use ledger::{ClaimsView, Moment};
use spec::{Point, RunId};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant, SystemTime};

/// How often a folder is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// The rest after working things out, in multiples of the time that took: whoever
/// trains on the same machine keeps most of it.
const REST: u32 = 4;

/// A watched study.
pub struct Watched {
    /// Its name in addresses.
    pub key: String,
    /// Its name on pages.
    pub name: String,
    dir: PathBuf,
    above: Vec<Link>,
    folder: RwLock<Option<Folder>>,
    view: Mutex<Arc<View>>,
    first: Condvar,
}

/// What is to be seen of a study.
pub struct View {
    /// Differs from that of every other view.
    pub version: u64,
    /// Its page.
    pub page: Page,
    /// What is known; `None` before the first reading.
    pub known: Option<Arc<Known>>,
    /// What is wrong with the folder.
    pub trouble: Option<String>,
}

/// What is known of a study.
pub struct Known {
    /// What its records say.
    pub findings: Arc<Findings>,
    /// Its figures.
    pub drawn: Arc<Drawn>,
    /// How it stands.
    pub standing: Standing,
    /// The points of its grid and what that has grown by.
    pub points: Arc<[Point]>,
    /// Runs that are being trained.
    pub training: HashSet<RunId>,
}

/// Figures with the pictures that have been asked for.
pub struct Drawn {
    /// The figures.
    pub figures: Vec<Figure>,
    pictures: Vec<OnceLock<Option<Arc<[u8]>>>>,
}

impl Drawn {
    /// Figures, without pictures yet.
    pub fn new(figures: Vec<Figure>) -> Self {
        let pictures = figures.iter().map(|_| OnceLock::new()).collect();
        Self { figures, pictures }
    }

    /// A figure by its name.
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    /// Its picture, drawn once; `None` if there is no such figure or it cannot be drawn.
    pub fn picture(&self, id: &str) -> Option<Arc<[u8]>> {
        let at = self.figures.iter().position(|figure| figure.id == id)?;
        let draw = || self.figures[at].png(2.0).ok().map(Arc::from);
        self.pictures[at].get_or_init(draw).clone()
    }
}

impl Watched {
    /// A study that nothing is known of yet.
    pub fn new(key: String, name: String, dir: &Path, above: Vec<Link>) -> Self {
        let reading = view(&key, dir, &above, None, None);
        Self {
            key,
            name,
            dir: dir.into(),
            above,
            folder: RwLock::new(None),
            view: Mutex::new(Arc::new(reading)),
            first: Condvar::new(),
        }
    }

    /// What the addresses below its page begin with.
    pub fn base(&self) -> String {
        base(&self.key)
    }

    /// What is to be seen; waits a little for the first reading.
    pub fn view(&self, patience: Duration) -> Arc<View> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = |view: &mut Arc<View>| view.known.is_none() && view.trouble.is_none();
        let waited = self.first.wait_timeout_while(view, patience, reading);
        let (view, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&view)
    }

    /// The folder as it was last read; `None` if it could not be.
    pub fn folder(&self) -> RwLockReadGuard<'_, Option<Folder>> {
        self.folder.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the folder for ever.
    pub fn watch(&self) {
        let mut eye = Eye::default();
        loop {
            let start = Instant::now();
            // A defect must not leave a page that silently stands still.
            let looked = catch_unwind(AssertUnwindSafe(|| eye.look(self)))
                .unwrap_or_else(|_| Err(anyhow!("{}: cannot be worked out", self.dir.display())));
            match looked {
                Ok(Some(known)) => self.show(Some(known), None),
                Ok(None) => {}
                Err(error) => {
                    *self.folder.write().unwrap_or_else(PoisonError::into_inner) = None;
                    eye = Eye::default();
                    self.show(None, Some(error.to_string()));
                }
            }
            std::thread::sleep(EVERY.max(REST * start.elapsed()));
        }
    }

    /// Shows what is known now, or what was known before with what is wrong now.
    fn show(&self, known: Option<Known>, trouble: Option<String>) {
        let mut shown = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() && shown.trouble == trouble {
            return;
        }
        let known = known.map(Arc::new).or_else(|| shown.known.clone());
        *shown = Arc::new(view(&self.key, &self.dir, &self.above, known, trouble));
        self.first.notify_all();
    }
}

fn base(key: &str) -> String {
    format!("/s/{key}/")
}

fn view(
    key: &str,
    dir: &Path,
    above: &[Link],
    known: Option<Arc<Known>>,
    trouble: Option<String>,
) -> View {
    static VERSIONS: AtomicU64 = AtomicU64::new(0);
    let mut options = PageOptions {
        place: Place::Served { base: base(key) },
        above: above.to_vec(),
        ..PageOptions::default()
    };
    let mut page = match &known {
        Some(known) => {
            options.standings = vec![known.standing.clone()];
            options.command = Some(go_on(std::iter::once(dir)));
            let findings = std::slice::from_ref(&*known.findings);
            ::report::page(findings, &known.drawn.figures, &options)
        }
        None => {
            options.title = Some(key.into());
            let mut page = ::report::page(&[], &[], &options);
            page.parts = vec![Part::whole("reading", "<p>Reading the ledger …</p>\n")];
            page
        }
    };
    if let Some(trouble) = &trouble {
        page.parts.retain(|part| part.name != "reading");
        page.parts.insert(0, ::report::trouble(trouble));
    }
    View {
        version: VERSIONS.fetch_add(1, Ordering::Relaxed),
        page,
        known,
        trouble,
    }
}

/// What one thread remembers of a folder between two looks.
#[derive(Default)]
struct Eye {
    /// When the study file was last changed, and its length.
    study: Option<(SystemTime, u64)>,
    /// Who had written how much.
    writers: Option<Vec<(String, usize)>>,
    claims: Option<ClaimsView>,
    training: HashSet<RunId>,
    found: Option<Found>,
    standing: Option<Standing>,
    pace: Pace,
}

impl Eye {
    /// What is known, if it differs from last time.
    fn look(&mut self, watched: &Watched) -> Result<Option<Known>> {
        self.read(watched)?;
        let held = watched.folder();
        let Some(folder) = held.as_ref() else {
            return Ok(None);
        };
        let claims = self
            .claims
            .get_or_insert_with(|| ClaimsView::new(&watched.dir));
        let status = folder.ledger.status(claims, Moment::now())?;
        let writers: Vec<(String, usize)> = (status.writers.iter())
            .filter(|writer| writer.records > 0)
            .map(|writer| (writer.name.clone(), writer.records))
            .collect();
        let grew = self.found.is_none() || self.writers.as_ref() != Some(&writers);
        if grew {
            let found = Found::of(folder, &watched.name);
            self.pace.note(Instant::now(), found.done());
            self.found = Some(found);
            self.writers = Some(writers);
        }
        let Some(found) = &self.found else {
            return Ok(None);
        };
        let failed = folder.failed_runs(&found.asked)?;
        let standing = found.standing(&status, &self.pace, &failed);
        let training: HashSet<RunId> = (status.claimants.iter())
            .flat_map(|claimant| claimant.runs.iter().copied())
            .collect();
        let same = self.training == training && self.standing.as_ref() == Some(&standing);
        if !grew && same {
            return Ok(None);
        }
        self.training = training;
        self.standing = Some(standing.clone());
        Ok(Some(Known {
            findings: Arc::clone(&found.findings),
            drawn: Arc::clone(&found.drawn),
            standing,
            points: Arc::clone(&found.points),
            training: self.training.clone(),
        }))
    }

    /// Opens the folder if it is new or its study has changed, else reads what is new.
    fn read(&mut self, watched: &Watched) -> Result<()> {
        let changed =
            |metadata: std::fs::Metadata| Some((metadata.modified().ok()?, metadata.len()));
        let study = std::fs::metadata(watched.dir.join("study.toml"))
            .ok()
            .and_then(changed);
        let known = self.study.is_some() && self.study == study;
        if known && watched.folder().is_some() {
            let mut held = watched
                .folder
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(folder) = held.as_mut() {
                folder.ledger.refresh()?;
            }
            return Ok(());
        }
        let folder = Folder::open(&watched.dir)?;
        *watched
            .folder
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(folder);
        *self = Self {
            study,
            ..Self::default()
        };
        Ok(())
    }
}
