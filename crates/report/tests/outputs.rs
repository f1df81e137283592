//! What comes out of every kind of study: well-formed, complete, self-contained.

mod support;

use analysis::observation::Observed;
use analysis::{Findings, PointFindings};
use report::{
    FigureKind, PageOptions, Place, PointRuns, curve_figures, figures, flags, html, page,
    point_page, results_json, runs_csv, tables,
};
use std::collections::HashSet;
use std::sync::LazyLock;
use support::Sample;

/// Analysing takes longer than drawing: once for all tests.
static ALL: LazyLock<Vec<Findings>> =
    LazyLock::new(|| support::all().iter().map(Sample::findings).collect());

fn named(name: &str) -> &'static [Findings] {
    let found = ALL.iter().position(|one| one.study.name == name);
    std::slice::from_ref(&ALL[found.unwrap()])
}

/// What is inside the page, without its style and script.
fn parts(findings: &[Findings]) -> String {
    let shown = page(findings, &figures(findings), &PageOptions::default());
    let elements: Vec<String> = shown.parts.iter().map(report::Part::element).collect();
    elements.concat()
}

#[test]
fn every_kind_of_figure_is_drawn() {
    let kinds: HashSet<FigureKind> = figures(&ALL).iter().map(|figure| figure.kind).collect();
    for kind in [
        FigureKind::Law,
        FigureKind::Scan,
        FigureKind::Agreement,
        FigureKind::Grid,
        FigureKind::Stability,
        FigureKind::Schemes,
    ] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

#[test]
fn figures_have_different_safe_names() {
    let all = figures(&ALL);
    let names: HashSet<&str> = all.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(names.len(), all.len());
    let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(
        names
            .iter()
            .all(|name| !name.is_empty() && name.chars().all(safe))
    );
}

#[test]
fn svg_is_well_formed_and_complete() {
    for figure in figures(&ALL) {
        let svg = figure.svg();
        let document = roxmltree::Document::parse(&svg).unwrap();
        assert!(
            !svg.contains("NaN") && !svg.contains("inf"),
            "{}",
            figure.id
        );
        let words: Vec<String> = document
            .descendants()
            .filter(|node| node.has_tag_name("text"))
            .map(|node| {
                let texts = node.descendants().filter(|n| n.is_text());
                texts.filter_map(|n| n.text()).collect()
            })
            .collect();
        for series in &figure.series {
            // The law's labels may be wrapped nowhere; every legend entry is one text.
            assert!(
                words.contains(&series.label),
                "{}: {}",
                figure.id,
                series.label
            );
        }
        assert!(
            figure
                .subtitle
                .iter()
                .any(|line| line.contains("per point") || line.contains("n = ")),
            "{}",
            figure.id
        );
        let titles = document.descendants().filter(|n| n.has_tag_name("title"));
        assert_eq!(titles.count(), figure.marks().count() + figure.spans.len());
        for (_, mark) in figure.marks() {
            assert!(mark.n.is_some() && !mark.text.is_empty(), "{}", figure.id);
        }
    }
}

#[test]
fn marks_and_words_stay_on_the_paper() {
    for figure in figures(&ALL) {
        let svg = figure.svg();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let root = document.root_element();
        let number = |node: roxmltree::Node<'_, '_>, name: &str| -> Option<f64> {
            node.attribute(name)?.parse().ok()
        };
        let (width, height) = (
            number(root, "width").unwrap(),
            number(root, "height").unwrap(),
        );
        for node in document.descendants() {
            let (x, y) = match node.tag_name().name() {
                "text" => (number(node, "x"), number(node, "y")),
                "circle" => (number(node, "cx"), number(node, "cy")),
                _ => continue,
            };
            let inside =
                (0.0..=width).contains(&x.unwrap()) && (0.0..=height).contains(&y.unwrap());
            assert!(inside, "{}: {:?}", figure.id, node.text());
        }
    }
}

#[test]
fn png_is_a_picture_of_the_asked_size() {
    let figure = &figures(named("digits-paired"))[0];
    let file = figure.png(2.0).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(file))
        .read_info()
        .unwrap();
    let (width, height) = (reader.info().width, reader.info().height);
    assert_eq!(width, 1440);
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    // Opaque, mostly white, and not only white.
    assert!(pixels.chunks(4).all(|pixel| pixel[3] == 255));
    let dark = pixels.chunks(4).filter(|pixel| pixel[0] < 128).count();
    let all = (width * height) as usize;
    assert!(dark > all / 200 && dark < all / 4, "{dark} of {all}");
    for scale in [0.0, -1.0, f64::NAN, 1e9] {
        assert!(figure.png(scale).is_err());
    }
}

#[test]
fn a_legend_has_every_series_that_looks_different() {
    // Two studies of one name, each with both searches.
    let two = [support::paired().findings(), support::paired().findings()];
    let all = figures(&two);
    let law = all.iter().find(|figure| figure.kind == FigureKind::Law);
    let (law, svg) = (law.unwrap(), law.unwrap().svg());
    assert_eq!(law.series.len(), 4);
    let label = &law.series[0].label;
    let entries = svg.matches(&format!(">{label}<")).count();
    assert_eq!(entries, 2, "{label}");
}

#[test]
fn a_legend_explains_hollow_marks_that_are_drawn() {
    let all = figures(named("digits-paired"));
    let scan = all.iter().find(|f| f.kind == FigureKind::Scan).unwrap();
    let mut scan = scan.clone();
    scan.hollow = Some("explained".into());
    let explained = |scan: &report::Figure| scan.svg().contains(">explained<");
    let marks = scan.series.iter_mut().flat_map(|s| s.marks.iter_mut());
    marks.for_each(|mark| mark.hollow = false);
    // The lowest mark lies below the range of the axis.
    let marks = scan.series.iter_mut().flat_map(|s| s.marks.iter_mut());
    let lowest = marks.min_by(|a, b| a.y.total_cmp(&b.y)).unwrap();
    (lowest.y, lowest.hollow) = (-50.0, true);
    assert!(!explained(&scan));
    scan.series[0].marks[0].hollow = true;
    let highest = scan.marks().map(|(_, mark)| mark.y).fold(0.0, f64::max);
    scan.series[0].marks[0].y = highest;
    assert!(explained(&scan));
}

#[test]
fn unbracketed_optima_are_hollow_and_not_fitted() {
    let findings = named("digits-short");
    let law = &figures(findings)[0];
    assert_eq!(law.kind, FigureKind::Law);
    let hollow: Vec<f64> = (law.marks().filter(|(_, mark)| mark.hollow))
        .map(|(_, mark)| mark.x)
        .collect();
    let fit = findings[0].searches[0].law.law().unwrap();
    assert_eq!(hollow.len(), fit.excluded.len());
    assert!(
        hollow.contains(&8.0) && hollow.contains(&64.0),
        "{hollow:?}"
    );
    // The narrow networks may want larger batches: less noise; the wide ones more.
    let open = |x: f64| law.marks().find(|(_, mark)| mark.x == x).unwrap().1.open;
    assert!(open(8.0).below && !open(8.0).above);
    assert!(open(64.0).above && !open(64.0).below);
    assert!(law.hollow.is_some());
    let options = PageOptions {
        command: Some("noisescale run 'a <folder>'".into()),
        ..PageOptions::default()
    };
    let page = html(findings, &figures(findings), &options);
    assert!(
        page.contains("<code>noisescale run &#39;a &lt;folder&gt;&#39;</code>"),
        "{page}"
    );
    assert!(page.contains("add larger B") && page.contains("add smaller B"));
}

#[test]
fn the_page_needs_nothing_else() {
    for findings in ALL.iter().map(std::slice::from_ref).chain([ALL.as_slice()]) {
        let page = html(findings, &figures(findings), &PageOptions::default());
        let rest = page.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http://", "https://", "//cdn", "@import", "url("] {
            assert!(!rest.contains(outside), "{outside}");
        }
        let shown = parts(findings);
        assert!(!shown.contains("NaN") && !shown.contains(">inf"));
        assert!(!page.contains("How to repeat it"));
        for one in findings {
            for width in &one.study.widths {
                assert!(page.contains(&width.to_string()));
            }
        }
    }
}

#[test]
fn titles_are_harmless() {
    let mut sample = support::single();
    sample.study.title = "<script>alert(\"x\")</script> & 'y'".into();
    sample.study.name = "a\"><img src=x>".into();
    let findings = [sample.findings()];
    let drawn = figures(&findings);
    let page = html(&findings, &drawn, &PageOptions::default());
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert!(page.contains("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &#39;y&#39;"));
    // One script, the page's own, and none in the part that a live page renews.
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!parts(&findings).contains("<script"));
    for figure in &drawn {
        roxmltree::Document::parse(&figure.svg()).unwrap();
    }
}

#[test]
fn incomplete_and_empty_ledgers_say_so() {
    let page = |name: &str| {
        let findings = named(name);
        html(findings, &figures(findings), &PageOptions::default())
    };
    assert!(page("digits-incomplete").contains("of 3640 planned runs recorded"));
    assert!(page("digits-nothing").contains("0 of 3640 planned runs recorded"));
    assert!(figures(named("digits-nothing")).is_empty());
    assert!(tables(named("digits-nothing")).contains("no record yet"));
    assert!(tables(named("digits-single")).contains("spread unknown"));
    assert!(html(&[], &[], &PageOptions::default()).contains("No study was given"));
    assert_eq!(tables(&[]), "");
}

#[test]
fn figure_csv_reads_back() {
    for figure in figures(&ALL) {
        let text = figure.csv();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let columns = reader.headers().unwrap().len();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), figure.marks().count());
        for (row, (series, mark)) in rows.iter().zip(figure.marks()) {
            assert_eq!(row.len(), columns);
            assert_eq!(row[0], series.label);
            assert_eq!(row[1].parse::<f64>().unwrap(), mark.x);
            assert_eq!(row[4].parse::<f64>().unwrap(), mark.y);
        }
    }
}

#[test]
fn runs_csv_has_a_row_for_every_recorded_run() {
    let mut sample = support::paired();
    sample.study.name = "a, \"quoted\" name".into();
    let copy = sample.records[0].clone();
    sample.records.push(copy);
    let text = runs_csv(&sample.study, &spec::points(&sample.study), &sample.records);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    assert_eq!(reader.headers().unwrap(), report::RUN_COLUMNS.as_slice());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), sample.findings().runs.recorded);
    let first = &sample.records[0];
    assert_eq!(rows[0][0], first.run.to_string());
    assert_eq!(&rows[0][1], "batch-size");
    // ḡ = 5 · 1197/(2 · 0.1 · 2) = 14962.5 at B = 2; ε̄ = 5/2.
    assert_eq!(rows[0][8].parse::<f64>().unwrap().round(), 14_963.0);
    assert_eq!(&rows[0][9], "2.5");
    assert_eq!(&rows[0][17], "a, \"quoted\" name");
    let diverged = rows.iter().find(|row| &row[10] == "diverged").unwrap();
    assert_eq!(&diverged[11], "");
    let trained = rows.iter().find(|row| &row[10] == "trained").unwrap();
    let accuracy = |row: &csv::StringRecord| row[11].parse::<f64>().unwrap();
    let record = sample
        .records
        .iter()
        .find(|r| r.run.to_string() == trained[0]);
    assert_eq!(Some(accuracy(trained)), record.unwrap().outcome.trained());
}

#[test]
fn results_hold_the_findings_bit_for_bit() {
    let text = results_json(&ALL);
    let back: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(back["version"], 1);
    assert_eq!(back["flags"].as_array().unwrap().len(), flags(&ALL).len());
    assert_eq!(back["studies"].as_array().unwrap().len(), ALL.len());
    for (study, findings) in ALL.iter().enumerate() {
        for (at, search) in findings.searches.iter().enumerate() {
            let law = &back["studies"][study]["searches"][at]["law"];
            let slope = search.law.law().ok().map(|law| law.proportion.slope);
            assert_eq!(law["proportion"]["slope"].as_f64(), slope);
        }
    }
    for field in back["units"].as_object().unwrap().keys() {
        let uses = text.matches(&format!("\"{field}\":")).count();
        assert!(uses > 1, "no field `{field}`");
    }
}

#[test]
fn tables_state_the_law_with_its_intervals() {
    let text = tables(named("digits-paired"));
    let law = named("digits-paired")[0].searches[0].law.law().unwrap();
    assert!(text.contains("ḡ_opt = a·w: a = "), "{text}");
    assert!(text.contains(&format!("R² = {:.3}", law.proportion.r_squared.unwrap())));
    assert!(text.contains("95 % intervals") && text.contains("7 widths"));
    assert!(text.contains("20/20"));
    assert!(!text.contains("NaN"));
    assert!(tables(named("mnist-cnn-bn-ntk")).contains("optimal 1/B"));
    let limits = tables(named("digits-stability-ntk"));
    assert!(limits.contains("ε_half ∝ w^q, q = "), "{limits}");
    assert!(limits.contains("0 is expected in the NTK scheme"));
}

#[test]
fn the_same_findings_give_the_same_bytes() {
    let findings = named("mnist-3lp-grid");
    let page = || html(findings, &figures(findings), &PageOptions::default());
    assert_eq!(page(), page());
}

#[test]
fn a_served_page_has_the_parts_of_the_report() {
    let findings = named("digits-paired");
    let drawn = figures(findings);
    let file = page(findings, &drawn, &PageOptions::default());
    let served = PageOptions {
        place: Place::Served {
            base: "/s/digits/".into(),
        },
        ..PageOptions::default()
    };
    let served = page(findings, &drawn, &served);
    let names = |page: &report::Page| -> Vec<String> {
        page.parts.iter().map(|part| part.name.clone()).collect()
    };
    assert_eq!(names(&file), names(&served));
    let text = served.served("/s/digits/parts");
    assert!(text.contains("href=\"/s/digits/points/batch-size-w8-b16-e5\""));
    for kind in ["svg", "png", "csv"] {
        let link = format!("href=\"/s/digits/figures/{}.{kind}\"", drawn[0].id);
        assert!(text.contains(&link), "{link}");
    }
    assert!(!text.contains("data:") && !text.contains("<style"));
    assert!(text.len() < file.file().len() / 2);
}

#[test]
fn parts_have_names_of_their_own_and_stamps_that_tell_them_apart() {
    for findings in ALL.iter().map(std::slice::from_ref).chain([ALL.as_slice()]) {
        let shown = page(findings, &figures(findings), &PageOptions::default());
        let names: HashSet<&str> = shown.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names.len(), shown.parts.len());
    }
    let of = |name: &str| {
        let findings = named(name);
        page(findings, &figures(findings), &PageOptions::default())
    };
    let (whole, part) = (of("digits-paired"), of("digits-incomplete"));
    let same = |name: &str| {
        let stamp = |page: &report::Page| {
            let found = page.parts.iter().find(|part| part.name == name);
            found.unwrap().stamp()
        };
        stamp(&whole) == stamp(&part)
    };
    // The narrow widths are whole in both; the wide ones are not.
    assert!(same("s0-points-0") && !same("s0-points-6") && !same("s0-law"));
}

#[test]
fn a_point_shows_its_runs_and_how_they_trained() {
    let sample = support::paired();
    let findings = sample.findings();
    let point = (spec::points(&sample.study).into_iter())
        .find(|point| point.width.get() == 64 && point.batch_size.get() == 2)
        .unwrap();
    let observations = analysis::observe(&sample.study, &[point], &sample.records);
    let mut observed = observations.points[0].clone();
    observed.by_seed[0] = None;
    observed.by_seed[1] = None;
    let found = PointFindings::of(&sample.study.setting, &observed);
    let drawn = curve_figures(&findings.study, &observed);
    assert_eq!(drawn.len(), 2);
    let trained = observed.records().filter(|r| r.outcome.trained().is_some());
    let trained = trained.count();
    for figure in &drawn {
        assert_eq!(figure.kind, FigureKind::Curves);
        // A line for every run, and the mean of those that trained.
        assert_eq!(figure.series.len(), 18 + 1);
        let svg = figure.svg();
        roxmltree::Document::parse(&svg).unwrap();
        assert!(svg.contains(&format!("mean of {trained} trained runs")) && !svg.contains("NaN"));
        // The legend names outcomes, not runs.
        assert_eq!(svg.matches(">trained</text>").count(), 1);
    }
    // The mean at the last step is that of the point, in percent.
    let mean = drawn[0].series.last().unwrap().marks.last().unwrap();
    assert!((mean.y - 100.0 * found.accuracy.unwrap().mean).abs() < 1e-6);
    let shown = PointRuns {
        observed: &observed,
        found: &found,
        training: &[1],
    };
    let text = point_page(&findings, &shown, &drawn, &PageOptions::default()).file();
    assert_eq!(text.matches("<td>no record</td>").count(), 1);
    assert_eq!(text.matches("<td>being trained</td>").count(), 1);
    let record = observed.by_seed[2].unwrap();
    assert!(text.contains(&record.run.to_string()));
    assert!(curve_figures(&findings.study, &observed_nothing(&observed)).is_empty());
}

/// The same point before its first record.
fn observed_nothing<'a>(observed: &Observed<'a>) -> Observed<'a> {
    Observed {
        by_seed: vec![None; observed.by_seed.len()],
        ..observed.clone()
    }
}
