//! What the page shows, piece by piece, and which of it has changed since when.
//!
//! A piece is an element with an id. Each knows in which version of the board it has last changed, so that any browser, however late, is told of just
//! what it does not have yet; there is no queue that could run over.

use crate::page::Html;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Sentences that are kept for browsers that are late.
const SAID_MAX: usize = 100;
/// Ids of what is gone that are kept for them. Who is later than that begins anew.
const GONE_MAX: usize = 1000;

/// An element of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Id of the list that it stands in; none: it has its own place.
    pub list: Option<&'static str>,
    /// Its place in that list, which is in the order of these.
    pub key: String,
    /// What it is made of: it has changed when this has.
    pub stamp: String,
    /// The element.
    pub html: Html,
}

/// The pieces by their ids.
pub(super) type Pieces = BTreeMap<String, Piece>;

/// The pieces and their versions.
#[derive(Debug, Default)]
pub(super) struct Board {
    version: u64,
    pieces: BTreeMap<String, (u64, Piece)>,
    gone: BTreeMap<String, u64>,
    /// The latest version of which something gone was forgotten.
    forgotten: u64,
    said: VecDeque<(u64, String)>,
}

/// What a browser lacks.
#[derive(Debug, Serialize)]
pub(super) struct Delta<'a> {
    /// What it has then.
    pub version: u64,
    /// What is new or has changed.
    pub pieces: Vec<Changed<'a>>,
    /// Ids of what is gone.
    pub gone: Vec<&'a str>,
    /// What is to be said aloud.
    pub said: Vec<&'a str>,
    /// What it has may hold what nobody knows of any more: it has to ask for the whole page.
    pub reload: bool,
}

/// A piece that is new or has changed.
#[derive(Debug, Serialize)]
pub(super) struct Changed<'a> {
    id: &'a str,
    list: Option<&'static str>,
    key: &'a str,
    html: &'a Html,
}

impl Board {
    /// How many times it has changed.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Takes in what there is now, and what is to be said of it. Has anything changed?
    pub fn update(&mut self, now: Pieces, said: Vec<String>) -> bool {
        let next = self.version + 1;
        let gone: Vec<String> = self
            .pieces
            .keys()
            .filter(|id| !now.contains_key(*id))
            .cloned()
            .collect();
        let mut is_changed = !gone.is_empty() || !said.is_empty();
        for id in gone {
            self.pieces.remove(&id);
            self.gone.insert(id, next);
        }
        for (id, piece) in now {
            let known = self.pieces.get(&id).map(|(_, it)| (it.list, &it.stamp));
            if known == Some((piece.list, &piece.stamp)) {
                continue;
            }
            is_changed = true;
            self.gone.remove(&id);
            self.pieces.insert(id, (next, piece));
        }
        self.forget();
        self.said.extend(said.into_iter().map(|it| (next, it)));
        let surplus = self.said.len().saturating_sub(SAID_MAX);
        self.said.drain(..surplus);
        if is_changed {
            self.version = next;
        }
        is_changed
    }

    /// Nodes come and go for as long as the command runs, most of them under names of their own.
    fn forget(&mut self) {
        let surplus = self.gone.len().saturating_sub(GONE_MAX);
        if surplus == 0 {
            return;
        }
        let mut versions: Vec<u64> = self.gone.values().copied().collect();
        versions.sort_unstable();
        let last = versions.into_iter().take(surplus).next_back();
        self.forgotten = last.unwrap_or_default();
        self.gone.retain(|_, at| *at > self.forgotten);
    }

    /// What somebody lacks who has that version.
    pub fn since(&self, version: u64) -> Delta<'_> {
        let newer = self.pieces.iter().filter(|(_, (at, _))| *at > version);
        let pieces = newer.map(|(id, (_, piece))| Changed {
            id,
            list: piece.list,
            key: &piece.key,
            html: &piece.html,
        });
        let gone = self.gone.iter().filter(|(_, at)| **at > version);
        let said = self.said.iter().filter(|(at, _)| *at > version);
        Delta {
            version: self.version,
            pieces: pieces.collect(),
            gone: gone.map(|(id, _)| id.as_str()).collect(),
            said: said.map(|(_, words)| words.as_str()).collect(),
            reload: version < self.forgotten,
        }
    }

    /// The piece with this id.
    pub fn piece(&self, id: &str) -> Html {
        let piece = self.pieces.get(id);
        piece.map_or_else(Html::default, |(_, it)| it.html.clone())
    }

    /// The pieces of a list, in its order.
    pub fn list(&self, list: &str) -> Html {
        let pieces = self.pieces.values().map(|(_, it)| it);
        let mut pieces: Vec<&Piece> = pieces.filter(|it| it.list == Some(list)).collect();
        pieces.sort_by(|a, b| a.key.cmp(&b.key));
        pieces.iter().map(|it| it.html.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(of: &[(&str, &'static str, &str)]) -> Pieces {
        let piece = |(id, list, stamp): &(&str, &'static str, &str)| {
            let piece = Piece {
                list: Some(*list),
                key: (*id).to_owned(),
                stamp: (*stamp).to_owned(),
                html: Html::text(format!("{id} {stamp};")),
            };
            ((*id).to_owned(), piece)
        };
        of.iter().map(piece).collect()
    }

    fn told(delta: &Delta<'_>) -> (Vec<String>, Vec<String>) {
        let ids = delta.pieces.iter().map(|it| it.id.to_owned()).collect();
        (ids, delta.gone.iter().map(|it| (*it).to_owned()).collect())
    }

    #[test]
    fn a_browser_is_told_of_just_what_it_lacks_however_late_it_is() {
        let mut board = Board::default();
        assert!(board.update(pieces(&[("a", "x", "1"), ("b", "x", "1")]), vec![]));
        assert!(!board.update(pieces(&[("a", "x", "1"), ("b", "x", "1")]), vec![]));
        assert_eq!(board.version(), 1);
        assert!(board.update(
            pieces(&[("a", "x", "2"), ("b", "x", "1")]),
            vec!["a!".to_owned()]
        ));
        assert!(board.update(pieces(&[("b", "y", "1")]), vec![]));
        let list = |of: &[&str]| of.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(told(&board.since(0)), (list(&["b"]), list(&["a"])));
        assert_eq!(told(&board.since(1)), (list(&["b"]), list(&["a"])));
        assert_eq!(board.since(1).said, ["a!"]);
        assert_eq!(board.since(2).said, [""; 0]);
        assert_eq!(told(&board.since(3)), (vec![], vec![]));
    }

    #[test]
    fn what_comes_back_is_no_longer_gone() {
        let mut board = Board::default();
        board.update(pieces(&[("a", "x", "1")]), vec![]);
        board.update(Pieces::new(), vec![]);
        board.update(pieces(&[("a", "x", "1")]), vec![]);
        assert_eq!(told(&board.since(1)), (vec!["a".to_owned()], vec![]));
    }

    #[test]
    fn what_is_gone_is_forgotten_at_last_and_who_is_later_than_that_begins_anew() {
        let mut board = Board::default();
        let rounds = u64::try_from(GONE_MAX).expect("a number") + 500;
        for round in 0..rounds {
            let name = format!("node-{round}");
            board.update(pieces(&[(name.as_str(), "x", "1")]), vec![]);
        }
        assert_eq!(board.gone.len(), GONE_MAX);
        let gone = |version: u64| {
            let delta = board.since(version);
            (delta.gone.len(), delta.reload)
        };
        // The first of them went in version 2.
        assert_eq!(gone(rounds - 1), (1, false));
        assert_eq!(gone(500), (GONE_MAX, false));
        assert_eq!(gone(499), (GONE_MAX, true));
    }

    #[test]
    fn a_list_is_in_the_order_of_its_keys() {
        let mut board = Board::default();
        board.update(
            pieces(&[("b", "x", "1"), ("a", "x", "1"), ("c", "y", "1")]),
            vec![],
        );
        assert_eq!(board.list("x"), Html::text("a 1;b 1;"));
        assert_eq!(board.piece("d"), Html::default());
    }
}
