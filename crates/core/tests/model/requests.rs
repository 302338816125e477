//! Requests to the API server: each is one that was sent, arrives once or never, and late if it likes.
//!
//! Whoever has sent one may stop waiting for its answer, or die. The request goes on then, and is judged by the object that it meets.

use crate::brain::Brain;
use crate::event::{Event, Step};
use crate::judge::{Broken, Landing};
use crate::mutation::Mutation;
use crate::operator::hear;
use crate::state::{Node, Object, State, Volume};
use crate::talk::{Heard, Kind, Write};

/// What becomes of the request whose answer an operator waits for.
pub fn answered(brain: &mut Brain, s: &State, x: usize, steps: &mut Vec<Step>) {
    let request = s.operators[x].sent;
    let write = Write::Request(brain.request(request).kind);
    let mut next = *s;
    next.operators[x].sent = 0;
    let (is_done, broken) = land(brain, &mut next, request);
    let heard = match is_done {
        true => Heard::Done(write),
        false => Heard::Refused(write),
    };
    if !is_done {
        next.operators[x].ahead = 0;
    }
    hear(brain, &mut next, x, heard);
    steps.push(Step::new(
        Event::Answered(x, request, is_done),
        next,
        broken,
    ));

    let mut next = *s;
    next.operators[x].sent = 0;
    next.operators[x].ahead = 0;
    if put_on_wire(&mut next, request) {
        hear(brain, &mut next, x, Heard::Unknown(write));
        steps.push(Step::new(Event::GivesUp(x, request), next, None));
    }
}

/// Nobody waits for it any more. False: as many are on their way as may be.
pub fn put_on_wire(s: &mut State, request: u16) -> bool {
    let is_room = s.budget.messages > 0;
    let free = s.wire.iter_mut().find(|free| **free == 0);
    match free.filter(|_| is_room && request != 0) {
        Some(free) => {
            *free = request;
            s.budget.messages -= 1;
            true
        }
        None => false,
    }
}

/// Requests that nobody waits for arrive, or are lost.
pub fn late(brain: &mut Brain, s: &State, steps: &mut Vec<Step>) {
    for (place, request) in s.wire.into_iter().enumerate() {
        if request == 0 {
            continue;
        }
        let mut next = *s;
        next.wire[place] = 0;
        next.budget.messages += 1;
        let (is_done, broken) = land(brain, &mut next, request);
        steps.push(Step::new(Event::Lands(request, is_done), next, broken));
    }
}

/// The request meets the objects as they are.
fn land(brain: &mut Brain, s: &mut State, request: u16) -> (bool, Option<Broken>) {
    match brain.request(request).kind {
        Kind::Evict => return evict(brain, s, request),
        Kind::Detach => return detach(brain, s, request),
        Kind::DeleteNode => return delete_node(brain, s, request),
        Kind::Claim | Kind::DropClaim | Kind::Taint | Kind::Release => {}
    }
    let before = *s;
    let Some(patched) = brain.patched(request, s.node) else {
        return (false, None);
    };
    let adds = |is: fn(&crate::state::Node) -> bool| is(&patched) && !is(&s.node);
    let puts_away = adds(|node| node.claim().is_some()) || adds(|node| node.is_marked());
    // The shipped ValidatingAdmissionPolicy (deploy/admission.yaml).
    if s.node.ready && puts_away && brain.mutation != Some(Mutation::NoAdmissionPolicy) {
        return (false, None);
    }
    s.node = patched;
    let landing = Landing {
        request: brain.request(request),
        before: &before,
        after: s,
    };
    (true, landing.broken())
}

/// The VolumeAttachment is deleted if it still is the one that it was. One that is gone is what was wanted.
fn detach(brain: &Brain, s: &mut State, request: u16) -> (bool, Option<Broken>) {
    if s.volume != Volume::Here {
        return (true, None);
    }
    let is_it = s.attachment == brain.request(request).attachment
        || brain.mutation == Some(Mutation::DetachWithoutUid);
    s.leaving |= is_it;
    (is_it, None)
}

/// The Node is deleted if nothing was written to it since it was read. A kubelet's Lease is another object.
fn delete_node(brain: &Brain, s: &mut State, request: u16) -> (bool, Option<Broken>) {
    let request = brain.request(request);
    let is_as_read = s.node.without_claim() == request.as_read
        && s.node.claim().unwrap_or_default() == request.claim;
    let is_tested = brain.mutation != Some(Mutation::DeleteWithoutVersion);
    if s.node.uid != request.uid || (is_tested && !is_as_read) {
        return (false, None);
    }
    let before = *s;
    s.node = Node::default();
    let landing = Landing {
        request,
        before: &before,
        after: s,
    };
    (true, landing.broken())
}

/// A pod is deleted by force if it still has the uid that it had.
fn evict(brain: &Brain, s: &mut State, request: u16) -> (bool, Option<Broken>) {
    let (mut is_done, mut broken) = (true, None);
    for (index, generation) in &brain.request(request).pods {
        let pod = &mut s.pods[*index];
        if pod.object == Object::Gone {
            continue;
        }
        let is_it =
            pod.generation == *generation || brain.mutation == Some(Mutation::EvictWithoutUid);
        if !is_it || !pod.is_on_node() {
            is_done = false;
            continue;
        }
        pod.object = Object::Gone;
        let pod = *pod;
        broken = broken.or(crate::judge::evicted(s, &pod));
    }
    (is_done, broken)
}
