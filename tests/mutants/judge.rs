//! Puts mutants behind switches, turns on one after the other, and asks the tests.

use crate::root;
use crate::row::Edit;
use crate::sources::Sources;
use crate::switch::Switched;
use crate::workspace::{Binary, Outcome, Problem, Suite, Workspace};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Tests without a mutant that take longer than this hang; the simulation takes the longest.
const TIME_MAX: Duration = Duration::from_mins(30);

/// Something taken away from the sources.
pub struct Mutant {
    pub name: String,
    pub suites: &'static [Suite],
    pub edit: Edit,
}

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Caught(String),
    /// A test that would wait for ever fails as well, but says less.
    CaughtByDeadline(String),
    Survived,
    DoesNotBuild(String),
}

impl Verdict {
    pub fn is_caught(&self) -> bool {
        matches!(self, Self::Caught(_) | Self::CaughtByDeadline(_))
    }

    fn words(&self) -> String {
        match self {
            Self::Caught(test) => format!("caught by {test}"),
            Self::CaughtByDeadline(test) => {
                format!("caught by the deadline of {test}, which hangs")
            }
            Self::Survived => "SURVIVED".to_owned(),
            Self::DoesNotBuild(error) => format!("DOES NOT BUILD: {error}"),
        }
    }
}

/// Tries all mutants; their numbers count from one.
pub fn judge(sources: &Sources, mutants: &[Mutant]) -> Vec<Verdict> {
    let run = Run {
        workspace: Workspace::copy_of(root()),
        sources,
        mutants,
        started: Instant::now(),
    };
    let mut suites: BTreeSet<Suite> = BTreeSet::new();
    suites.extend(mutants.iter().flat_map(|mutant| mutant.suites));
    let suites: Vec<Suite> = suites.into_iter().collect();
    let (binaries, alone) = run.build(&suites);
    let deadlines = run.deadlines(&binaries);
    let together = (1..=mutants.len()).filter(|number| !alone.contains(number));
    let waiting = Mutex::new(together);
    let verdicts = Mutex::new(BTreeMap::new());
    let next = || waiting.lock().expect("no worker panics").next();
    let judged = |number: usize, verdict: Verdict| {
        let mut verdicts = verdicts.lock().expect("no worker panics");
        verdicts.insert(number, verdict.clone());
        let name = &mutants[number - 1].name;
        let minutes = run.started.elapsed().as_secs() / 60;
        println!(
            "{}/{} {name:<62} {} ({minutes} min)",
            verdicts.len(),
            mutants.len(),
            verdict.words()
        );
    };
    thread::scope(|scope| {
        for _ in 0..jobs() {
            scope.spawn(|| {
                while let Some(number) = next() {
                    let Mutant { suites, edit, .. } = &mutants[number - 1];
                    let of_suite = |suite: &Suite| &binaries[suite];
                    let suites: Vec<&Binary> = suites.iter().map(of_suite).collect();
                    let verdict = asked(&suites, number, &edit.file, &deadlines);
                    judged(number, verdict);
                }
            });
        }
    });
    for number in alone {
        judged(number, run.alone(number, &deadlines));
    }
    let verdicts: Vec<Verdict> = verdicts
        .into_inner()
        .expect("no worker panics")
        .into_values()
        .collect();
    summary(mutants, &verdicts);
    verdicts
}

fn jobs() -> usize {
    let asked = std::env::var("JOBS").ok().and_then(|it| it.parse().ok());
    asked.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

fn summary(mutants: &[Mutant], verdicts: &[Verdict]) {
    println!();
    for (mutant, verdict) in mutants.iter().zip(verdicts) {
        if !matches!(verdict, Verdict::Caught(_)) {
            println!("{:<62} {}", mutant.name, verdict.words());
        }
    }
    let count = |is_it: fn(&Verdict) -> bool| verdicts.iter().filter(|it| is_it(it)).count();
    println!(
        "\n{} mutants: {} caught ({} by the deadline), {} survived, {} do not build",
        verdicts.len(),
        count(Verdict::is_caught),
        count(|it| matches!(it, Verdict::CaughtByDeadline(_))),
        count(|it| matches!(it, Verdict::Survived)),
        count(|it| matches!(it, Verdict::DoesNotBuild(_))),
    );
}

type Binaries = BTreeMap<Suite, Binary>;
type Deadlines = BTreeMap<Suite, Duration>;

struct Run<'a> {
    workspace: Workspace,
    sources: &'a Sources,
    mutants: &'a [Mutant],
    started: Instant,
}

impl Run<'_> {
    /// One build of all that can be switched, and the numbers of the others.
    fn build(&self, suites: &[Suite]) -> (Binaries, BTreeSet<usize>) {
        let mut alone = BTreeSet::new();
        loop {
            let switched = self.switched(&mut alone);
            let texts = switched
                .iter()
                .map(|(file, it)| (file.clone(), it.text.clone()));
            println!(
                "{} mutants in one build, {} alone",
                self.mutants.len() - alone.len(),
                alone.len()
            );
            match self.workspace.build(&texts.collect(), suites) {
                Ok(binaries) => return (binaries, alone),
                Err(problems) => {
                    let blamed = blamed(&switched, &problems);
                    let words: Vec<&str> = problems.iter().map(|it| it.words.as_str()).collect();
                    assert!(
                        !blamed.is_empty(),
                        "the sources do not build, and no mutant is to blame: {words:#?}"
                    );
                    alone.extend(blamed);
                }
            }
        }
    }

    /// The files that have mutants, with their switches. What cannot be switched is alone.
    fn switched(&self, alone: &mut BTreeSet<usize>) -> BTreeMap<PathBuf, Switched> {
        let mut of_files: BTreeMap<&PathBuf, Vec<(usize, &Edit)>> = BTreeMap::new();
        for (number, mutant) in (1..).zip(self.mutants) {
            let edits = of_files.entry(&mutant.edit.file).or_default();
            if !alone.contains(&number) {
                edits.push((number, &mutant.edit));
            }
        }
        let switch = |(file, edits): (&PathBuf, Vec<(usize, &Edit)>)| {
            let switched = Switched::of(self.sources.text(file), &edits);
            alone.extend(&switched.left);
            (file.clone(), switched)
        };
        of_files.into_iter().map(switch).collect()
    }

    /// How long each suite may take: it has to pass without a mutant, or it would catch everything.
    fn deadlines(&self, binaries: &Binaries) -> Deadlines {
        let deadline = |binary: &Binary| {
            let started = Instant::now();
            let outcome = binary.run(0, TIME_MAX);
            assert!(
                matches!(outcome, Outcome::Passed),
                "without a mutant: {outcome:?}: {}",
                binary.program.display()
            );
            let taken = started.elapsed();
            println!("{:?} takes {taken:.1?}", binary.suite);
            (binary.suite, taken * 10 + Duration::from_mins(1))
        };
        binaries.values().map(deadline).collect()
    }

    /// By a build of its own for each suite.
    fn alone(&self, number: usize, deadlines: &Deadlines) -> Verdict {
        let Mutant { edit, suites, .. } = &self.mutants[number - 1];
        let mut text = self.sources.text(&edit.file).to_owned();
        text.replace_range(edit.span.clone(), &edit.new);
        let changed = [(edit.file.clone(), text)].into();
        for suite in *suites {
            let binaries = match self.workspace.build(&changed, &[*suite]) {
                Ok(binaries) => binaries,
                Err(problems) => return Verdict::DoesNotBuild(problems[0].words.clone()),
            };
            let binaries: Vec<&Binary> = binaries.values().collect();
            match asked(&binaries, 0, &edit.file, deadlines) {
                Verdict::Survived => {}
                other => return other,
            }
        }
        Verdict::Survived
    }
}

/// Runs the tests until one fails: first those named after the file, which are few and the likeliest to, then all of them.
fn asked(suites: &[&Binary], mutant: usize, file: &Path, deadlines: &Deadlines) -> Verdict {
    let near = suites.iter().map(|it| (it, true));
    for (binary, is_near) in near.chain(suites.iter().map(|it| (it, false))) {
        let deadline = deadlines[&binary.suite];
        let outcome = match is_near {
            true => binary.run_near(file, mutant, deadline),
            false => binary.run(mutant, deadline),
        };
        match outcome {
            Outcome::Passed => {}
            Outcome::Failed(test) => return Verdict::Caught(test),
            Outcome::Hangs(test) => return Verdict::CaughtByDeadline(test),
        }
    }
    Verdict::Survived
}

/// The mutants in which the errors lie.
fn blamed(switched: &BTreeMap<PathBuf, Switched>, problems: &[Problem]) -> BTreeSet<usize> {
    let of_problem = |problem: &Problem| {
        let at = |(file, byte): &(PathBuf, usize)| {
            let found = switched.get(file)?.mutants_at(*byte);
            (!found.is_empty()).then(|| found.to_vec())
        };
        let blamed = problem.places.iter().find_map(at).unwrap_or_default();
        println!("{blamed:?}: {}", problem.words);
        blamed
    };
    problems.iter().flat_map(of_problem).collect()
}
