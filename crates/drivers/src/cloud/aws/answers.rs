//! What EC2 answers other than with a success.

use super::super::errors::{ANY_STATUS, Answers, Meaning, row};
use super::words;

/// What an answer other than a success means. Its code says all, and EC2's failures of its own are in no row: a command may have been carried out.
pub(super) const ANSWERS: Answers = Answers {
    table: &[
        row(ANY_STATUS, "AuthFailure", "", Meaning::Login),
        row(ANY_STATUS, "InvalidClientTokenId", "", Meaning::Login),
        row(ANY_STATUS, "SignatureDoesNotMatch", "", Meaning::Login),
        row(ANY_STATUS, "UnauthorizedOperation", "", Meaning::Denied),
        row(ANY_STATUS, "AccessDenied", "", Meaning::Denied),
        row(ANY_STATUS, "OptInRequired", "", Meaning::Denied),
        row(ANY_STATUS, "Blocked", "", Meaning::Denied),
        row(
            ANY_STATUS,
            "InvalidInstanceID.NotFound",
            "",
            Meaning::Missing,
        ),
        row(
            ANY_STATUS,
            "InvalidInstanceID.Malformed",
            "",
            Meaning::Missing,
        ),
        row(ANY_STATUS, "IncorrectInstanceState", "", Meaning::Busy),
        row(ANY_STATUS, "UnsupportedOperation", "", Meaning::Refused),
        row(ANY_STATUS, "OperationNotPermitted", "", Meaning::Refused),
        row(ANY_STATUS, "UnknownParameter", "", Meaning::Refused),
        row(ANY_STATUS, "VcpuLimitExceeded", "", Meaning::Refused),
        row(
            ANY_STATUS,
            "InsufficientInstanceCapacity",
            "",
            Meaning::Busy,
        ),
        // The clocks differ by more than a quarter of an hour, or temporary keys have ended.
        row(ANY_STATUS, "RequestExpired", "", Meaning::Busy),
        row(ANY_STATUS, "RequestLimitExceeded", "", Meaning::Busy),
        row(429, "", "", Meaning::Busy),
    ],
    words,
    right: "ec2:DescribeInstances, and ec2:StopInstances (ec2:StartInstances for `powerOn`) on the instance",
};
