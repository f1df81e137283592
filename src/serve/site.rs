//! Which address shows what. A path is compared with the names of studies, points, parts
//! and figures that are known; none ever becomes the name of a file.

use super::access::{Access, Verdict};
use super::answer::{Answer, Kind};
use super::http::{Request, Status};
use super::server::Respond;
use super::watch::{Drawn, View, Watched};
use ::report::{Link, Page, PageOptions, Place, PointRuns, Standing};
use analysis::observation::Observed;
use analysis::{Findings, PointFindings};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a request waits for the first reading of a ledger before it is answered
/// with a page that will renew itself.
const PATIENCE: Duration = Duration::from_millis(400);

/// The site of some studies.
pub struct Site {
    access: Access,
    studies: Vec<Arc<Watched>>,
    overview: Mutex<Option<Arc<Overview>>>,
}

/// The page above those of several studies, and what it was made from.
struct Overview {
    versions: Vec<u64>,
    page: Page,
    drawn: Drawn,
}

/// The first page, and the way to it.
pub fn home() -> Link {
    Link {
        href: "/".into(),
        text: "all studies".into(),
    }
}

impl Respond for Site {
    fn respond(&self, request: &Request) -> Answer {
        match self.access.verdict(request) {
            Verdict::Welcome => self.answer(&request.path),
            Verdict::Remember { cookie } => {
                Answer::elsewhere(&on_this_host(&request.path)).with("Set-Cookie", cookie)
            }
            Verdict::ForeignName => Answer::sentence(
                Status::Forbidden,
                "this server answers to localhost and loopback addresses alone; \
                 to be reached by another name it must be started with --host",
            ),
            Verdict::NoToken => Answer::sentence(
                Status::Forbidden,
                "open the address with its token, as `noisescale serve` printed it",
            ),
        }
    }
}

impl Site {
    /// The site of some studies, which somebody watches.
    pub fn new(access: Access, studies: Vec<Arc<Watched>>) -> Self {
        Self {
            access,
            studies,
            overview: Mutex::new(None),
        }
    }

    fn answer(&self, path: &str) -> Answer {
        let found = match segments(path).as_slice() {
            ["page.css"] => Some(asset(Kind::Css, ::report::style())),
            ["page.js"] => Some(asset(Kind::Script, ::report::script())),
            ["icon.svg"] => Some(asset(Kind::Svg, include_str!("icon.svg"))),
            ["s", key, rest @ ..] => self.of_study(key, rest),
            [] if self.studies.len() == 1 => {
                let base = self.studies[0].base();
                Some(Answer::elsewhere(base.trim_end_matches('/')))
            }
            rest if self.studies.len() > 1 => {
                let overview = self.overview();
                of_page(&overview.page, "/", &overview.drawn, rest)
            }
            _ => None,
        };
        found.unwrap_or_else(|| Answer::sentence(Status::NotFound, "Page not found; start at /"))
    }

    fn of_study(&self, key: &str, rest: &[&str]) -> Option<Answer> {
        let watched = self.studies.iter().find(|watched| watched.key == key)?;
        let view = watched.view(PATIENCE);
        match rest {
            ["runs.csv"] => runs_csv(watched, &view),
            ["results.json"] => {
                let findings = std::slice::from_ref(&*view.known.as_ref()?.findings);
                let name = format!("attachment; filename=\"{key}-results.json\"");
                let answer = Answer::of(Kind::Json, ::report::results_json(findings));
                Some(answer.with("Content-Disposition", name))
            }
            ["points", point, rest @ ..] => of_point(watched, &view, point, rest),
            rest => {
                let nothing = Drawn::new(Vec::new());
                let drawn = view.known.as_ref().map_or(&nothing, |known| &known.drawn);
                of_page(&view.page, &watched.base(), drawn, rest)
            }
        }
    }

    /// The overview, made anew when a study has changed.
    fn overview(&self) -> Arc<Overview> {
        let end = Instant::now() + PATIENCE;
        let views: Vec<Arc<View>> = (self.studies.iter())
            .map(|watched| watched.view(end.saturating_duration_since(Instant::now())))
            .collect();
        let versions: Vec<u64> = views.iter().map(|view| view.version).collect();
        let mut kept = self.overview.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(overview) = kept.as_ref().filter(|kept| kept.versions == versions) {
            return Arc::clone(overview);
        }
        let made = Arc::new(self.make_overview(&views, versions));
        *kept = Some(Arc::clone(&made));
        made
    }

    fn make_overview(&self, views: &[Arc<View>], versions: Vec<u64>) -> Overview {
        let known =
            || (self.studies.iter().zip(views)).filter_map(|(w, v)| Some((w, v.known.as_ref()?)));
        let findings: Vec<Findings> = known()
            .map(|(_, known)| (*known.findings).clone())
            .collect();
        let standings: Vec<Standing> = known().map(|(_, known)| known.standing.clone()).collect();
        let hrefs: Vec<String> = known()
            .map(|(watched, _)| watched.base().trim_end_matches('/').into())
            .collect();
        let figures = ::report::figures(&findings);
        let options = PageOptions {
            title: Some(format!("{} studies", self.studies.len())),
            place: Place::Served { base: "/".into() },
            standings,
            ..PageOptions::default()
        };
        let mut page = ::report::overview_page(&findings, &figures, &hrefs, &options);
        for (watched, view) in self.studies.iter().zip(views) {
            let words = match (&view.trouble, &view.known) {
                (Some(trouble), _) => trouble.clone(),
                (None, None) => format!("{}: reading the ledger …", watched.key),
                (None, Some(_)) => continue,
            };
            let mut part = ::report::trouble(&words);
            part.name = format!("trouble-{}", watched.key);
            page.parts.insert(0, part);
        }
        Overview {
            versions,
            page,
            drawn: Drawn::new(figures),
        }
    }
}

/// A path that leads nowhere else: browsers read a host's name after two slashes, and a backslash
/// as a slash.
fn on_this_host(path: &str) -> String {
    format!("/{}", path.trim_start_matches(['/', '\\']))
}

/// The names between the slashes of a path.
fn segments(path: &str) -> Vec<&str> {
    match path.strip_prefix('/') {
        None | Some("") => Vec::new(),
        Some(rest) => rest.split('/').collect(),
    }
}

fn asset(kind: Kind, text: &'static str) -> Answer {
    Answer::stamped(kind, text, ::report::stamp(text))
}

/// A page, the list of its parts, one of them, or a file of one of its figures.
fn of_page(page: &Page, base: &str, drawn: &Drawn, rest: &[&str]) -> Option<Answer> {
    match rest {
        [] => Some(Answer::of(Kind::Html, page.served(&format!("{base}parts")))),
        ["parts"] => {
            let parts: Vec<_> = (page.parts.iter())
                .map(|part| json!([part.name, part.stamp()]))
                .collect();
            let listed = json!({ "stamp": page.shell_stamp(), "parts": parts });
            Some(Answer::of(Kind::Json, listed.to_string()))
        }
        ["parts", name] => {
            let part = page.parts.iter().find(|part| part.name == *name)?;
            Some(Answer::of(Kind::Html, part.element()))
        }
        ["figures", file] => {
            let (id, kind) = file.rsplit_once('.')?;
            let figure = drawn.figure(id)?;
            match kind {
                "svg" => Some(Answer::of(Kind::Svg, figure.svg())),
                "csv" => Some(Answer::of(Kind::Csv, figure.csv())),
                "png" => Some(picture(drawn, id)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn picture(drawn: &Drawn, id: &str) -> Answer {
    let stamp = drawn
        .figure(id)
        .map(|figure| ::report::stamp(&figure.svg()));
    match (drawn.picture(id), stamp) {
        (Some(bytes), Some(stamp)) => {
            Answer::stamped(Kind::Png, super::answer::Content::Shared(bytes), stamp)
        }
        _ => Answer::sentence(Status::Failed, "the picture cannot be drawn; take the SVG"),
    }
}

/// One row for every recorded run.
fn runs_csv(watched: &Watched, view: &View) -> Option<Answer> {
    let points = &view.known.as_ref()?.points;
    let held = watched.folder();
    let folder = held.as_ref()?;
    let text = ::report::runs_csv(&folder.study, points, folder.ledger.records());
    let name = format!("attachment; filename=\"{}-runs.csv\"", watched.key);
    Some(Answer::of(Kind::Csv, text).with("Content-Disposition", name))
}

/// The page of a point that the study's findings know.
fn of_point(watched: &Watched, view: &View, key: &str, rest: &[&str]) -> Option<Answer> {
    let known = view.known.as_ref()?;
    let held = watched.folder();
    let folder = held.as_ref()?;
    let study = &folder.study;
    let point = known
        .points
        .iter()
        .find(|point| ::report::point_key(point) == key)?;
    let observed = Observed {
        point: *point,
        by_seed: (point.runs(study).map(|run| folder.ledger.get(run.id()))).collect(),
        skipped: 0,
    };
    let found = PointFindings::of(&study.setting, &observed);
    let training: Vec<u64> = (point.runs(study))
        .filter(|run| known.training.contains(&run.id()))
        .map(|run| run.seed)
        .collect();
    let figures = ::report::curve_figures(&known.findings.study, &observed);
    let base = format!("{}points/{key}/", watched.base());
    let mut above = view.page.above.clone();
    above.push(Link {
        href: watched.base().trim_end_matches('/').into(),
        text: view.page.title.clone(),
    });
    let options = PageOptions {
        place: Place::Served { base: base.clone() },
        above,
        ..PageOptions::default()
    };
    let page = ::report::point_page(
        &known.findings,
        &PointRuns {
            observed: &observed,
            found: &found,
            training: &training,
        },
        &figures,
        &options,
    );
    of_page(&page, &base, &Drawn::new(figures), rest)
}

#[cfg(test)]
mod tests {
    use super::{on_this_host, segments};

    /// To a browser a backslash is a slash.
    #[test]
    fn a_path_leads_to_no_other_host() {
        for (path, expected) in [
            ("/", "/"),
            ("/s/a", "/s/a"),
            ("//evil.example/", "/evil.example/"),
            ("/\\evil.example/", "/evil.example/"),
            ("\\/\\\\/evil.example", "/evil.example"),
            ("/s/\\a", "/s/\\a"),
        ] {
            assert_eq!(on_this_host(path), expected, "{path}");
        }
    }

    #[test]
    fn paths_are_names_between_slashes() {
        assert!(segments("/").is_empty());
        assert_eq!(segments("/s/a"), ["s", "a"]);
        assert_eq!(segments("/s//../%2e%2e"), ["s", "", "..", "%2e%2e"]);
        assert_eq!(segments("/s/"), ["s", ""]);
    }
}
