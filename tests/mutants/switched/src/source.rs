//! One file with its mutants behind switches.

use crate::place::{BEGIN, END};
use crate::{Mutant, Place};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Which mutant is on.
const SWITCH: &str = "crate::switched::on()";

/// The file, and the numbers of those that cannot be switched.
pub fn switched(
    text: &str,
    mutants: &[(usize, &Mutant)],
) -> Result<(String, Vec<usize>), Box<dyn Error>> {
    let lines = Lines::of(text);
    let mut sites = Sites {
        text,
        lines: &lines,
        found: BTreeMap::new(),
        mutants: mutants
            .iter()
            .map(|(number, mutant)| {
                let span = lines.at(mutant.span.start)..lines.at(mutant.span.end);
                (*number, *mutant, span)
            })
            .collect(),
    };
    sites.visit_file(&syn::parse_file(text)?);
    let is_found = |number: &usize| {
        let mut alternatives = sites.found.values().flat_map(|site| &site.alternatives);
        alternatives.any(|(of, _)| of == number)
    };
    let left = mutants.iter().map(|(number, _)| *number);
    let left = left.filter(|number| !is_found(number)).collect();
    let whole = 0..text.len();
    Ok((rendered(text, whole, &sites.found), left))
}

/// Where the characters of the source are.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(breaks).collect();
        Self { text, starts }
    }

    fn at(&self, place: Place) -> usize {
        let start = self.starts[place.line - 1];
        let line = &self.text[start..];
        let mut characters = line.char_indices().map(|(at, _)| at);
        start + characters.nth(place.column - 1).unwrap_or(line.len())
    }

    fn range(&self, node: &impl Spanned) -> Range<usize> {
        let span = node.span();
        let place = |at: proc_macro2::LineColumn| {
            self.at(Place {
                line: at.line,
                column: at.column + 1,
            })
        };
        place(span.start())..place(span.end())
    }
}

/// How a mutant is switched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The expression is one of several.
    Expression,
    /// The body returns early.
    Body,
    /// The arm, which has no guard, gets one.
    Arm,
}

/// Something in the source that has mutants.
struct Site {
    end: usize,
    shape: Shape,
    /// Their numbers, and what stands there then.
    alternatives: Vec<(usize, String)>,
}

struct Sites<'a> {
    text: &'a str,
    lines: &'a Lines<'a>,
    /// By where they begin, and the outermost first.
    found: BTreeMap<(usize, std::cmp::Reverse<usize>), Site>,
    mutants: Vec<(usize, &'a Mutant, Range<usize>)>,
}

impl Sites<'_> {
    fn add(&mut self, range: &Range<usize>, shape: Shape, number: usize, text: String) {
        let key = (range.start, std::cmp::Reverse(range.end));
        let site = self.found.entry(key).or_insert(Site {
            end: range.end,
            shape,
            alternatives: Vec::new(),
        });
        site.alternatives.push((number, text));
    }

    /// The expression in this range with each mutant of this genre that changes what begins at `at`.
    fn expression(&mut self, genre: &str, range: &Range<usize>, at: usize) {
        let of_it = |(_, mutant, span): &&(usize, &Mutant, Range<usize>)| {
            mutant.genre == genre && span.start == at && span.end <= range.end
        };
        let found: Vec<_> = self.mutants.iter().filter(of_it).cloned().collect();
        for (number, mutant, span) in found {
            let (before, after) = (range.start..span.start, span.end..range.end);
            let text = format!(
                "{}{}{}",
                &self.text[before], mutant.replacement, &self.text[after]
            );
            self.add(range, Shape::Expression, number, text);
        }
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let is_fixed = signature.constness.is_some()
            || matches!(&signature.output, syn::ReturnType::Type(_, it) if has_impl(it));
        if is_fixed {
            return;
        }
        let range = self.lines.range(block);
        let of_it = |(_, mutant, _): &&(usize, &Mutant, Range<usize>)| {
            let function = mutant.function.as_ref();
            mutant.genre == "FnValue"
                && function.is_some_and(|it| self.lines.at(it.span.end) == range.end)
        };
        let found: Vec<_> = self.mutants.iter().filter(of_it).cloned().collect();
        for (number, mutant, _) in found {
            self.add(&range, Shape::Body, number, mutant.replacement.clone());
        }
    }
}

fn has_impl(of: &syn::Type) -> bool {
    struct Finds(bool);
    impl Visit<'_> for Finds {
        fn visit_type_impl_trait(&mut self, _: &syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut finds = Finds(false);
    finds.visit_type(of);
    finds.0
}

/// `let` may stand in a condition only, and in no expression within it.
fn has_let(of: &syn::Expr) -> bool {
    match of {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

impl<'a> Visit<'a> for Sites<'_> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.body(&item.sig, &item.block);
        if item.sig.constness.is_none() {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.body(&item.sig, &item.block);
        if item.sig.constness.is_none() {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    // What is constant is known before any switch.
    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}

    fn visit_expr_binary(&mut self, both: &'a syn::ExprBinary) {
        let range = self.lines.range(both);
        if !has_let(&both.left) && !has_let(&both.right) {
            let at = self.lines.range(&both.op).start;
            self.expression("BinaryOperator", &range, at);
        }
        visit::visit_expr_binary(self, both);
    }

    fn visit_expr_unary(&mut self, one: &'a syn::ExprUnary) {
        let range = self.lines.range(one);
        self.expression("UnaryOperator", &range, range.start);
        visit::visit_expr_unary(self, one);
    }

    fn visit_expr_struct(&mut self, whole: &'a syn::ExprStruct) {
        let range = self.lines.range(whole);
        for field in &whole.fields {
            let at = self.lines.range(field).start;
            self.expression("StructField", &range, at);
        }
        visit::visit_expr_struct(self, whole);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        let pattern = self.lines.range(&arm.pat);
        if let Some((_, guard)) = &arm.guard {
            let range = self.lines.range(guard);
            self.expression("MatchArmGuard", &range, range.start);
        }
        let arms = self.lines.range(arm);
        let of_it = |(_, mutant, span): &&(usize, &Mutant, Range<usize>)| {
            mutant.genre == "MatchArm" && span.start == arms.start
        };
        let found = self.mutants.iter().find(of_it).cloned();
        if let Some((number, ..)) = found {
            match &arm.guard {
                Some((_, guard)) => {
                    let range = self.lines.range(guard);
                    self.add(&range, Shape::Expression, number, "false".to_owned());
                }
                None => self.add(
                    &(pattern.end..pattern.end),
                    Shape::Arm,
                    number,
                    String::new(),
                ),
            }
        }
        visit::visit_arm(self, arm);
    }
}

/// The source in this range.
fn rendered(
    text: &str,
    range: Range<usize>,
    sites: &BTreeMap<(usize, std::cmp::Reverse<usize>), Site>,
) -> String {
    let (mut out, mut at) = (String::new(), range.start);
    for ((start, _), site) in sites {
        let is_within = *start >= at && site.end <= range.end;
        // The site that is being rendered is not within itself.
        if !is_within || (*start..site.end) == range {
            continue;
        }
        out += &text[at..*start];
        out += &one(text, *start..site.end, site, sites);
        at = site.end;
    }
    out + &text[at..range.end]
}

/// A site with its alternatives.
fn one(
    text: &str,
    range: Range<usize>,
    site: &Site,
    sites: &BTreeMap<(usize, std::cmp::Reverse<usize>), Site>,
) -> String {
    let mut out = String::new();
    match site.shape {
        Shape::Expression => {
            let _ = write!(out, "(match {SWITCH} {{ ");
            for (number, instead) in &site.alternatives {
                let _ = write!(out, "{number} => {BEGIN}{number}>*/ {{ {instead} }} {END} ");
            }
            let _ = write!(out, "_ => {{ {} }} }})", rendered(text, range, sites));
        }
        Shape::Body => {
            out += "{ ";
            for (number, instead) in &site.alternatives {
                let _ = write!(
                    out,
                    "if {SWITCH} == {number} {{ {BEGIN}{number}>*/ return {instead}; {END} }} "
                );
            }
            let inner = range.start + 1..range.end - 1;
            let _ = write!(out, "{} }}", rendered(text, inner, sites));
        }
        Shape::Arm => {
            for (number, _) in &site.alternatives {
                let _ = write!(out, " if {BEGIN}{number}>*/ {SWITCH} != {number} {END} ");
            }
        }
    }
    out
}
