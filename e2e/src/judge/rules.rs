//! The rules that the judge knows, in plain words, each with where it comes from.
//!
//! A name begins with the invariant of `docs/protocol.md` that the rule belongs to. What a rule calls wrong is wrong for certain: an
//! order that the records leave open (two requests that overlapped, a command that was on its way) is taken as the right one.

/// One rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// What reports and tests call it.
    pub name: &'static str,
    /// What must hold.
    pub words: &'static str,
    /// Where this is laid down.
    pub source: &'static str,
}

macro_rules! rules {
    ($($id:ident: $name:literal, $words:literal, $source:literal;)*) => {
        $(
            #[doc = $words]
            pub static $id: Rule = Rule { name: $name, words: $words, source: $source };
        )*
        /// All of them.
        pub static ALL: &[&Rule] = &[$(&$id),*];
    };
}

rules! {
    ONE_WRITER: "S1-one-writer",
        "No container writes to a volume after a container on another node has begun to.",
        "Safety, S1";
    ATTACHED: "S1-attached-writer",
        "No node writes to a volume that the storage has given to another node since.",
        "Safety, S1";
    SILENT: "S1-silent-after-proof",
        "The boot that was fenced writes nothing after the last reading that the proof rests on.",
        "Safety, S1";
    DARK: "S1-dark-boot",
        "When out-of-service is set or a pod deleted by force, the boot that the evidence names has no power any more.",
        "Safety, S1";
    CLAIMED: "S2-claimed",
        "Out-of-service is set, and a pod deleted by force, only while a claim stands on the Node.",
        "The steps: taint, evict";
    QUIET: "S2-quiet",
        "Each pod that was on the node before the claim is being deleted, gone, tolerates out-of-service or mirrors a static pod \
         before the first of the readings is asked for.",
        "The steps: quiesce; The proof";
    TWICE: "S2-off-twice",
        "A device (each, if the level wants all) has read Off as often as the policy wants, twice at least, over its window.",
        "The proof";
    AFTER_CLAIM: "S2-after-claim",
        "The readings were asked for after the claim was written under which they count.",
        "The proof";
    ONLY_OFF: "S2-only-off",
        "A device that read Off has told nobody anything else between the first and the last of these readings.",
        "The proof";
    LIFELESS: "S2-lifeless",
        "Between the first and the last of the readings the kubelet renewed no Lease and reported nothing, and at the taint the Node \
         has the boot ID that the evidence names.",
        "The proof";
    FRESH: "S2-fresh",
        "Out-of-service is set, and a pod deleted by force, while the proof is fresh: within 20 s of the last reading's being asked for, 15 s of \
         a proof's life and 5 s on the way; what the lab itself held up may be older.",
        "The proof";
    DYING: "S2-dying-pod",
        "The operator deletes only a pod that somebody else has deleted before.",
        "The steps: evict";
    NOT_READY: "S6-not-ready",
        "Neither claim nor out-of-service is put on a Node whose stored Ready is True.",
        "Safety, S6";
    TAINTS_ONLY: "S7-taints-only",
        "A write of the operator to a Node is a JSON Patch that changes its own taints (claim, out-of-service, quarantine) and \
         nothing else.",
        "Safety, S7";
    EARLY: "S24-early",
        "A write of the operator to the status of a Node, or of a pod, is a JSON Patch: it turns the condition Ready away from True, tests that it is \
         True and whose it is (its uid; of a Node also the boot ID and the heartbeat), and changes nothing else.",
        "Safety, S24";
    DATED: "S8-dated",
        "An out-of-service that the operator sets bears the timeAdded of the claim that it stands under.",
        "Safety, S8";
    FOREIGN: "S8-foreign-taint",
        "An out-of-service that somebody else set is not removed or changed, nor is a Node claimed that carries one.",
        "Safety, S8";
    TESTED: "S9-claim-tested",
        "A write that sets or removes out-of-service, or replaces or removes the claim, tests the very claim that stands.",
        "The Node is the lock; Safety, S9";
    VERSIONED: "S9-record-versioned",
        "A write to the status of a NodeFence is bound to the version that it was decided on.",
        "Safety, S9";
    SAME_NODE: "S10-same-node",
        "A write to a Node tests its uid, and the NodeFence that the claim names is about this very Node.",
        "Safety, S10";
    POD_UID: "S10-pod-uid",
        "A pod is deleted by its uid.",
        "Safety, S10; The steps: evict";
    HARD_OFF: "S11-hard-off",
        "The only power commands are the hard off and the on.",
        "Safety, S11";
    COMMAND_CLAIMED: "S11-claimed-command",
        "A power command reaches a device only while the claim stands on the Node of its machine, or stood until a moment ago.",
        "The steps: power off";
    INTENT: "S11-intent",
        "Before a power command arrives its attempt is stored in the NodeFence that the claim names, and is not closed there.",
        "The steps: intent";
    ON_RELEASED: "S11-on-released",
        "A machine is turned on only when neither a claim nor out-of-service stands on its Node, nor until a moment ago.",
        "After the release";
    ON_INTENT: "S11-on-intent",
        "Before an on arrives its attempt is stored in a NodeFence of this very Node, and is not closed there.",
        "After the release";
    ON_POLICY: "S11-on-policy",
        "The NodeFence with that attempt asks for it: its `powerOn.policy` is AfterRecovery.",
        "After the release";
    ON_AFTER_OFF: "S11-on-after-off",
        "That NodeFence has sent the device an off before.",
        "After the release";
    DETACHED: "S14-detached",
        "When out-of-service goes, no VolumeAttachment of the node is left, and its `volumesAttached` is empty.",
        "The release gate, 2";
    PODS_GONE: "S14-pods-gone",
        "When out-of-service goes, no pod is left on the node but those that tolerate it, and mirrors of static pods.",
        "The release gate, 1";
    OFF_OR_NEW_BOOT: "S14-off-or-new-boot",
        "When out-of-service goes, the node has reported another boot, or a device has told Off since everything had gone and nothing \
         else since.",
        "The release gate, 3";
    RELEASE_MODE: "S14-release-mode",
        "In the boot that was fenced, AfterRecovery and Manual release only what a human lets go.",
        "The release gate, 5";
    QUARANTINED: "S14-quarantine",
        "A node that is released in the boot that was fenced is put under quarantine, which goes when it has reported another boot.",
        "The release gate";
    MARKED: "S9-deleted-marked",
        "A Node is deleted as it was read (its uid, its version), and a VolumeAttachment by its uid, only while the Node is not Ready and bears \
         the operator's claim and its taint detaching, a Node for the boot that it shows.",
        "Without the taint";
    DELETED_PROVEN: "S17-deleted-proven",
        "Before that the evidence of this claim, with two readings of Off, is stored in the NodeFence that the claim names.",
        "Without the taint";
    DELETED_OFF: "S1-deleted-off",
        "Of the devices that the proof was made with none has told anything but Off last, and one has told Off and was asked for it within 20 s \
         before: the 15 s of a proof, and 5 s on the way; what the lab itself held up may be older.",
        "Without the taint";
    DELETED_EMPTY: "S1-deleted-empty",
        "A VolumeAttachment is deleted when no pod with a claim is left on its node, and a Node when no VolumeAttachment of it is left.",
        "Without the taint";
    EVIDENCE: "S17-evidence-first",
        "Before out-of-service is set or a pod deleted by force, the evidence is stored in the NodeFence that the claim names.",
        "The steps: evidence";
    EVIDENCE_CLAIM: "S17-evidence-claim",
        "That evidence is of the claim that stands.",
        "The proof";
    EVIDENCE_TRUE: "S17-evidence-true",
        "Each reading of Off in the evidence was told at that time by the device, which is this node's.",
        "The steps: evidence";
    WITNESSED: "S17-evidence-witnessed",
        "A reading of Off by a device whose log nobody can read was made while the node's machine had no power.",
        "The steps: evidence";
    WAITED: "L1-waited",
        "A node is claimed for a policy only when the condition has held for the policy's `durationSeconds`, unless the NodeFence has \
         `earlySeconds` or `remediation`.",
        "Liveness, L1";
}
