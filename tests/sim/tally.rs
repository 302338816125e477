//! What is counted of each NodeFence, for the bounds L1 to L8.

use crate::libc::elapsed;
use crate::objects::{NAMESPACE, text};
use simapi::kinds::{FENCE, LEASE, NODE};
use simapi::store::{Change, Write};
use std::collections::BTreeMap;
use std::time::Duration;

/// One NodeFence.
#[derive(Debug, Clone, Default)]
pub struct Course {
    /// Its node.
    pub node: String,
    /// When it was created.
    pub opened: Duration,
    /// Since when its node had been Unknown then.
    pub unknown: Duration,
    /// When its node was put out of service first.
    pub tainted: Option<Duration>,
    /// Since when nothing hinders the release.
    pub free: Option<Duration>,
    /// When the node was released.
    pub released: Option<Duration>,
    /// Hard offs that were sent for it, by the boot of the machine that they met.
    pub commands: BTreeMap<u32, u32>,
    /// Writes of Nodes and NodeFences.
    pub writes: u32,
}

/// A process of the operator.
#[derive(Debug, Clone)]
pub struct Life {
    /// Its name.
    pub name: String,
    /// When it began.
    pub from: Duration,
    /// When it ended.
    pub to: Option<Duration>,
}

/// A process writes the Lease.
#[derive(Debug, Clone)]
pub struct Term {
    /// Its name.
    pub name: String,
    /// When it did so first, with nobody else in between.
    pub from: Duration,
    /// When it did so last.
    pub to: Duration,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// The processes, in the order of their births.
    pub lives: Vec<Life>,
    /// Who led, as the Lease has it.
    pub terms: Vec<Term>,
    /// By name.
    pub courses: BTreeMap<String, Course>,
    /// Since when each node is Unknown.
    unknown: BTreeMap<String, Duration>,
}

impl Course {
    /// All hard offs that were sent for it.
    pub fn commanded(&self) -> u32 {
        self.commands.values().sum()
    }
}

impl Tally {
    fn course(&mut self, fence: &str) -> &mut Course {
        self.courses.entry(fence.to_owned()).or_default()
    }

    /// A process begins to live, or has ended.
    pub fn lives(&mut self, name: &str, lives: bool) {
        if lives {
            self.lives.push(Life {
                name: name.to_owned(),
                from: elapsed(),
                to: None,
            });
        } else if let Some(life) = self.lives.iter_mut().find(|life| life.name == name) {
            life.to.get_or_insert_with(elapsed);
        }
    }

    fn led(&mut self, name: &str) {
        match self.terms.last_mut() {
            Some(term) if term.name == name => term.to = elapsed(),
            _ => self.terms.push(Term {
                name: name.to_owned(),
                from: elapsed(),
                to: elapsed(),
            }),
        }
    }

    /// An operator has written.
    pub fn wrote(&mut self, write: &Write) {
        if *write.kind == LEASE && write.key.0 == NAMESPACE {
            self.led(&write.actor);
        } else if *write.kind == FENCE && write.change != Change::Deleted {
            let course = self.course(&write.key.1);
            course.writes += 1;
            if write.change == Change::Added {
                course.opened = elapsed();
                course.node = text(&write.new, "/spec/nodeName").to_owned();
            }
        } else if *write.kind == NODE {
            let of_node = |course: &&mut Course| course.node == write.key.1;
            let mut courses = self.courses.values_mut().filter(of_node);
            // The last one that was opened is the one that is open.
            if let Some(course) = courses.next() {
                let last = courses.fold(
                    course,
                    |last, one| if one.opened > last.opened { one } else { last },
                );
                // A quarantine is lifted long after.
                last.writes += u32::from(last.released.is_none());
            }
        }
    }

    /// A node has become Unknown.
    pub fn unknown(&mut self, node: &str) {
        self.unknown.insert(node.to_owned(), elapsed());
    }

    /// A hard off was sent to a machine that had booted so often.
    pub fn commanded(&mut self, fence: &str, boots: u32) {
        *self.course(fence).commands.entry(boots).or_default() += 1;
    }

    /// The node was put out of service.
    pub fn tainted(&mut self, fence: &str, node: &str) {
        let unknown = self.unknown.get(node).copied();
        let course = self.course(fence);
        node.clone_into(&mut course.node);
        course.unknown = unknown.unwrap_or_default();
        course.tainted.get_or_insert_with(elapsed);
    }

    /// The node was released.
    pub fn released(&mut self, fence: &str) {
        self.course(fence).released.get_or_insert_with(elapsed);
    }

    /// NodeFences whose nodes are out of service, and these nodes.
    pub fn unreleased(&self) -> impl Iterator<Item = (String, String)> {
        let open = self
            .courses
            .iter()
            .filter(|(_, course)| course.tainted.is_some() && course.released.is_none());
        open.map(|(name, course)| (name.clone(), course.node.clone()))
    }

    /// Nothing hinders the release any more, or something does.
    pub fn free(&mut self, fence: &str, is_free: bool) {
        let course = self.course(fence);
        match is_free {
            true => drop(course.free.get_or_insert_with(elapsed)),
            false => course.free = None,
        }
    }
}
