//! Two snapshots of a program, a second apart, for tests.

use turnwise_top::Snapshot;

const BEFORE: &str = r#"{"version":1,"program":"shop","pid":4711,"at_ms":60000,"shut_down":false,
    "discarded":2,"actors":[
    {"number":1,"name":"orders","counts":{"handled":1000}},
    {"number":2,"name":"mailer","counts":{"handled":100}},
    {"number":3,"name":"session","counts":{"handled":1}},
    {"number":4,"name":"parser","counts":{"handled":40}},
    {"number":5,"name":"ledger","counts":{"handled":5}},
    {"number":6,"name":"stock","counts":{"handled":5}},
    {"number":7,"name":"till","counts":{"handled":9}},
    {"number":9,"name":"archive","counts":{"handled":0}}]}"#;

const NOW: &str = r#"{"version":1,"program":"shop","pid":4711,"at_ms":61000,"shut_down":false,
    "discarded":3,"actors":[
    {"number":1,"name":"orders","activity":"running","queued":1204,"counts":{"handled":6000},
     "busy_ms":0},
    {"number":2,"name":"mailer","activity":"running","queued":64,"capacity":64,
     "waiting_for_room":1,"counts":{"handled":103},"busy_ms":220},
    {"number":3,"name":"session","activity":"waiting","queued":2,"counts":{"handled":1},
     "busy_ms":41230},
    {"number":4,"name":"parser","activity":"idle","discarded":3,
     "counts":{"handled":41,"restarted":12}},
    {"number":5,"name":"ledger","activity":"running","queued":1,"counts":{"handled":5},
     "busy_ms":3490,"waits_for":{"number":6,"for_ms":3490}},
    {"number":6,"name":"stock","activity":"running","counts":{"handled":5},
     "busy_ms":3500,"waits_for":{"number":5,"for_ms":3500}},
    {"number":7,"name":"till","activity":"running","queued":7,"counts":{"handled":9},
     "busy_ms":9900,"waits_for":{"number":5,"for_ms":9900}},
    {"number":8,"name":"report","activity":"running","busy_ms":64000},
    {"number":9,"name":"archive","activity":"scheduled","queued":18,"closed":true,
     "counts":{"handled":0},"busy_ms":52000}],
    "sources":[{"name":"mail","age_ms":400,"report":{"actors":[
     {"name":"ada","running":true,"queued":3,"failed_attempts":1,"busy_ms":1200},
     {"name":"bob","delayed":2}],
    "dead_letters":[
     {"actor":"ada","id":"order 7","message":"send","attempts":3,"error":"no such address"}]}}]}"#;

pub(crate) fn snapshots() -> [Snapshot; 2] {
    [BEFORE, NOW].map(|line| Snapshot::from_json(line).unwrap())
}
