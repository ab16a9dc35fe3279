BEGIN TRANSACTION;
CREATE TABLE audit (
    audit_id TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT
);
INSERT INTO "audit" VALUES('aud_01MCC5RM00C71WTR9Y63CF2TPZ','2027-01-15T08:00:00.000Z','system','create','ada','user');
INSERT INTO "audit" VALUES('aud_01MCC5RM008E4GEVSQGYWX2YF0','2027-01-15T08:00:00.000Z','system','mint','ada','tok_rd6z1rv0whe6m1110rdv');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ8706C70F8HWWC1J7X','2027-01-15T08:00:01.000Z','system','create','ben','user');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ85VYJRJHPK2N2S8DF','2027-01-15T08:00:01.000Z','system','mint','ben','tok_xj1t6bj7nvckjzs2yfst');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ8B7YY3YNSTY67W4TF','2027-01-15T08:00:01.000Z','ada','create','bot-research','bot');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ8BSYTSARTDF39TJYR','2027-01-15T08:00:01.000Z','ada','grant','ada','owner on principal bot-research');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ8DPRCH7D13DH3JYY7','2027-01-15T08:00:01.000Z','ada','mint','bot-research','tok_sqz1y2ksaae0cesppxh0');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ8E5QF8RXK6Z90PQAS','2027-01-15T08:00:01.000Z','system','create','gone','user');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ8F33DEZ4PR044YFEP','2027-01-15T08:00:01.000Z','system','mint','gone','tok_dv3yqctzptp0nx1ebb5g');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ81AKH429X4TP52AR1','2027-01-15T08:00:01.000Z','ben','create','bot-old','bot');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ877XG8HEPAVF3MQDN','2027-01-15T08:00:01.000Z','ben','grant','ben','owner on principal bot-old');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ8449K08TR1K5X7XF0','2027-01-15T08:00:01.000Z','ben','mint','bot-old','tok_bpj4aagahjxmzy71krnt');
INSERT INTO "audit" VALUES('aud_01MCC5RMZ8ECPM1RN218DXFKKK','2027-01-15T08:00:01.000Z','system','grant','ada','owner on system ');
INSERT INTO "audit" VALUES('aud_01MCC5RNYGFKGFM6RVY4W7JECV','2027-01-15T08:00:02.000Z','ada','grant','ada','owner on thread thr_dv1e1s92aw');
INSERT INTO "audit" VALUES('aud_01MCC5RNYG3J8Q6TMMFA23ZQD7','2027-01-15T08:00:02.000Z','ada','grant','ben','approver on thread thr_dv1e1s92aw');
INSERT INTO "audit" VALUES('aud_01MCC5RNYG96TTSHKAAXJHG29X','2027-01-15T08:00:02.000Z','ada','grant','bot-research','member on thread thr_dv1e1s92aw');
INSERT INTO "audit" VALUES('aud_01MCC5RNYG0Y36T8FMSPGRBK4E','2027-01-15T08:00:02.000Z','ada','grant','gone','commenter on thread thr_dv1e1s92aw');
INSERT INTO "audit" VALUES('aud_01MCC5RPXR84H9YYKXNYT3NQ2F','2027-01-15T08:00:03.000Z','bot-research','grant','bot-research','owner on thread thr_dv1e1s92aw.sub-ft0k8-t16');
INSERT INTO "audit" VALUES('aud_01MCC5RQX039B1JPDSXXCD0XKM','2027-01-15T08:00:04.000Z','ada','revoke','gone','thread thr_dv1e1s92aw');
INSERT INTO "audit" VALUES('aud_01MCC5RQX033C9ESMSSHQDBMDZ','2027-01-15T08:00:04.000Z','system','disable','bot-old',NULL);
INSERT INTO "audit" VALUES('aud_01MCC5RQX06VRNDKQRXGH9HFDH','2027-01-15T08:00:04.000Z','ben','grant','ben','owner on thread thr_rjz1msj1ac');
INSERT INTO "audit" VALUES('aud_01MCC5RQX0CABRT6C23YA7G46R','2027-01-15T08:00:04.000Z','ada','mint','ada','tok_zf4258aadhngqnn7jfz8');
INSERT INTO "audit" VALUES('aud_01MCC5RQX00M1546RRN4DB3H1F','2027-01-15T08:00:04.000Z','ada','revoke','ada','tok_zf4258aadhngqnn7jfz8');
CREATE TABLE events (
    thread_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    ts TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    type TEXT NOT NULL,
    run_id TEXT,
    key TEXT,
    role TEXT,
    bare_left INTEGER,
    digest BLOB,
    payload TEXT NOT NULL,
    PRIMARY KEY (thread_id, seq)
) WITHOUT ROWID;
INSERT INTO "events" VALUES('thr_dv1e1s92aw',1,'evt_01MCC5RNYGAV7837BWMYT6226C','2027-01-15T08:00:02.000Z','ada','thread_created',NULL,NULL,NULL,NULL,NULL,'{}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',2,'evt_01MCC5RNYGDA3RPWCSSNPKKTT3','2027-01-15T08:00:02.000Z','ada','participant_joined',NULL,NULL,NULL,NULL,NULL,'{"principalId":"ada","role":"owner","by":"ada"}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',3,'evt_01MCC5RNYGB3VWRFAN0TGQMGT0','2027-01-15T08:00:02.000Z','ada','participant_joined',NULL,NULL,NULL,NULL,NULL,'{"principalId":"ben","role":"approver","by":"ada"}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',4,'evt_01MCC5RNYG0FPTC144AY31W0QC','2027-01-15T08:00:02.000Z','ada','participant_joined',NULL,NULL,NULL,NULL,NULL,'{"principalId":"bot-research","role":"member","by":"ada"}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',5,'evt_01MCC5RNYGAHTN4F9AAK6TNB23','2027-01-15T08:00:02.000Z','ada','participant_joined',NULL,NULL,NULL,NULL,NULL,'{"principalId":"gone","role":"commenter","by":"ada"}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',6,'evt_01MCC5RPXR20B4RWBGJPYCK6Q8','2027-01-15T08:00:03.000Z','ada','message_part','m','m/0',NULL,0,X'E193FCC03F74418B1398C80E2AA1BC7AF4011C41C0F3CA48B3FC6920D748D314','{"chunk":{"type":"text-delta","id":"t","delta":"Can we ship?\nπ \\u0041 \"quoted\" ; "}}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',7,'evt_01MCC5RPXRE08KCKJ37ZVWH0QM','2027-01-15T08:00:03.000Z','bot-research','run_started','r','r/0',NULL,NULL,X'5FC013B3CB0E42D2122D046856323D8D31ECE9292554910CBA09B3406363A535','{}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',8,'evt_01MCC5RPXRE08KCKJ37ZVWH0QN','2027-01-15T08:00:03.000Z','bot-research','message_part','r',NULL,NULL,NULL,X'FB80C2848FF1353F4E8BC55BA57796D0173616F4A6A037537541D468B044AC3E','{"chunk":{"type":"tool-input-available","toolCallId":"toolu_1","toolName":"Bash","input":{}}}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',9,'evt_01MCC5RPXRE08KCKJ37ZVWH0QP','2027-01-15T08:00:03.000Z','bot-research','message_part','r','r/2',NULL,NULL,X'CF96FA8E90393A01731C1EC0E7602A80E288A6692E4A522B3EF9691DB1C092D7','{"chunk":{"type":"text-delta","id":"t","delta":"Looking"}}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',10,'evt_01MCC5RPXR146MWVTTJG62A2G3','2027-01-15T08:00:03.000Z','ben','tool_call_approval','r',NULL,'approver',NULL,X'88E8DCA4DE33D22AD2CDDBC7947C8FE9DDCCAC497FC7FD909ACB1FE264E2A118','{"toolCallId":"toolu_1","decision":"allow"}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',11,'evt_01MCC5RPXR4YWH74FSQ7DWF6DG','2027-01-15T08:00:03.000Z','bot-research','run_finished','r','r/9',NULL,NULL,X'888928B365083268C4773F14A403B817E77C1236F9485BDA1CABF2CA0E3AFBF8','{"status":"completed"}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',12,'evt_01MCC5RPXR4RGF0X9MZVNCR48E','2027-01-15T08:00:03.000Z','bot-research','run_started','open','o/0',NULL,NULL,X'0770582360C52377627E8FDF78911E178626629D34C1FDD500A9E53195C38FAF','{}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',13,'evt_01MCC5RQX0EB1AS5AAPP9CJDBX','2027-01-15T08:00:04.000Z','ada','participant_left',NULL,NULL,NULL,NULL,NULL,'{"principalId":"gone","by":"ada","cause":"revoked"}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw',14,'evt_01MCC5RQX0F071NEWBMDZ0NCQD','2027-01-15T08:00:04.000Z','ada','thread_updated',NULL,NULL,NULL,NULL,NULL,'{"membersCanInvite":false}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw.sub-ft0k8-t16',1,'evt_01MCC5RPXRDW9X7WGXSGNYH2T6','2027-01-15T08:00:03.000Z','bot-research','thread_created',NULL,NULL,NULL,NULL,NULL,'{"parentThreadId":"thr_dv1e1s92aw"}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw.sub-ft0k8-t16',2,'evt_01MCC5RPXRCFBZJJAND3FB1R36','2027-01-15T08:00:03.000Z','bot-research','participant_joined',NULL,NULL,NULL,NULL,NULL,'{"principalId":"bot-research","role":"owner","by":"bot-research"}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw.sub-ft0k8-t16',3,'evt_01MCC5RPXR36K61GMGT04S950E','2027-01-15T08:00:03.000Z','bot-research','run_started','s','s/0',NULL,NULL,X'1FEB3050A99B27D2CE7B9030F862A962F884F0F3536C5050E3BFC45522795E5C','{}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw.sub-ft0k8-t16',4,'evt_01MCC5RPXR36K61GMGT04S950F','2027-01-15T08:00:03.000Z','bot-research','message_part','s',NULL,NULL,NULL,X'AF8A6657B05DD4CADA78EC363FBC30AAF42E264E11A1139AF0C0A5927B048C8E','{"chunk":{"type":"text-delta","id":"t","delta":"inner"}}');
INSERT INTO "events" VALUES('thr_dv1e1s92aw.sub-ft0k8-t16',5,'evt_01MCC5RPXR36K61GMGT04S950G','2027-01-15T08:00:03.000Z','bot-research','run_finished','s',NULL,NULL,NULL,X'669D02724F2F21A8FFD5BE27E1EACF16528C149041AE3F4BDF9FE59BD1C9119E','{"status":"failed"}');
INSERT INTO "events" VALUES('thr_rjz1msj1ac',1,'evt_01MCC5RQX0CZ9N7SPGJFDRF1SD','2027-01-15T08:00:04.000Z','ben','thread_created',NULL,NULL,NULL,NULL,NULL,'{}');
INSERT INTO "events" VALUES('thr_rjz1msj1ac',2,'evt_01MCC5RQX0CGQS0DRNS3YAYJJT','2027-01-15T08:00:04.000Z','ben','participant_joined',NULL,NULL,NULL,NULL,NULL,'{"principalId":"ben","role":"owner","by":"ben"}');
INSERT INTO "events" VALUES('thr_rjz1msj1ac',3,'evt_01MCC5RQX0ASA48EXARMV8J7QB','2027-01-15T08:00:04.000Z','ben','x.acme.note',NULL,'n',NULL,NULL,X'2BB8C8939F6F439F8CDC1432CCE0DE45165FC345C94D1EFCCF1275C5543E12EE','{"n":1.5,"deep":[{"a":null}]}');
INSERT INTO "events" VALUES('thr_rjz1msj1ac',4,'evt_01MCC5RQX0625DCWWKTRCAW09Y','2027-01-15T08:00:04.000Z','ben','thread_updated',NULL,NULL,NULL,NULL,NULL,'{"archivedAt":"2027-01-15T09:00:00.000Z"}');
CREATE TABLE grant_log (
    principal_id TEXT NOT NULL REFERENCES principals,
    grant_seq BIGINT NOT NULL,
    action TEXT NOT NULL,
    target_type TEXT NOT NULL,
    target_id TEXT NOT NULL,
    role TEXT,
    granted_by TEXT,
    created_at TEXT,
    joined_seq BIGINT,
    PRIMARY KEY (principal_id, grant_seq)
);
INSERT INTO "grant_log" VALUES('ada',1,'granted','principal','bot-research','owner','ada','2027-01-15T08:00:01.000Z',NULL);
INSERT INTO "grant_log" VALUES('ben',1,'granted','principal','bot-old','owner','ben','2027-01-15T08:00:01.000Z',NULL);
INSERT INTO "grant_log" VALUES('ada',2,'granted','system','','owner','system','2027-01-15T08:00:01.000Z',NULL);
INSERT INTO "grant_log" VALUES('ada',3,'granted','thread','thr_dv1e1s92aw','owner','ada','2027-01-15T08:00:02.000Z',2);
INSERT INTO "grant_log" VALUES('ben',2,'granted','thread','thr_dv1e1s92aw','approver','ada','2027-01-15T08:00:02.000Z',3);
INSERT INTO "grant_log" VALUES('bot-research',1,'granted','thread','thr_dv1e1s92aw','member','ada','2027-01-15T08:00:02.000Z',4);
INSERT INTO "grant_log" VALUES('gone',1,'granted','thread','thr_dv1e1s92aw','commenter','ada','2027-01-15T08:00:02.000Z',5);
INSERT INTO "grant_log" VALUES('bot-research',2,'granted','thread','thr_dv1e1s92aw.sub-ft0k8-t16','owner','bot-research','2027-01-15T08:00:03.000Z',2);
INSERT INTO "grant_log" VALUES('gone',2,'revoked','thread','thr_dv1e1s92aw',NULL,NULL,NULL,NULL);
INSERT INTO "grant_log" VALUES('ben',3,'granted','thread','thr_rjz1msj1ac','owner','ben','2027-01-15T08:00:04.000Z',2);
CREATE TABLE grants (
    target_type TEXT NOT NULL,
    target_id TEXT NOT NULL,
    principal_id TEXT NOT NULL REFERENCES principals,
    role TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    joined_seq BIGINT,
    PRIMARY KEY (target_type, target_id, principal_id)
);
INSERT INTO "grants" VALUES('principal','bot-research','ada','owner','ada','2027-01-15T08:00:01.000Z',NULL);
INSERT INTO "grants" VALUES('principal','bot-old','ben','owner','ben','2027-01-15T08:00:01.000Z',NULL);
INSERT INTO "grants" VALUES('system','','ada','owner','system','2027-01-15T08:00:01.000Z',NULL);
INSERT INTO "grants" VALUES('thread','thr_dv1e1s92aw','ada','owner','ada','2027-01-15T08:00:02.000Z',2);
INSERT INTO "grants" VALUES('thread','thr_dv1e1s92aw','ben','approver','ada','2027-01-15T08:00:02.000Z',3);
INSERT INTO "grants" VALUES('thread','thr_dv1e1s92aw','bot-research','member','ada','2027-01-15T08:00:02.000Z',4);
INSERT INTO "grants" VALUES('thread','thr_dv1e1s92aw.sub-ft0k8-t16','bot-research','owner','bot-research','2027-01-15T08:00:03.000Z',2);
INSERT INTO "grants" VALUES('thread','thr_rjz1msj1ac','ben','owner','ben','2027-01-15T08:00:04.000Z',2);
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
INSERT INTO "meta" VALUES('log_epoch','e-f5b165224a58b791');
INSERT INTO "meta" VALUES('schema_version','1');
CREATE TABLE principals (
    principal_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    display_name TEXT,
    avatar_url TEXT,
    email TEXT,
    discoverable INTEGER NOT NULL,
    open_to_invites INTEGER NOT NULL,
    folded TEXT NOT NULL,
    created_by TEXT,
    key TEXT,
    created_at TEXT NOT NULL,
    disabled_at TEXT,
    grant_seq BIGINT NOT NULL DEFAULT 0
);
INSERT INTO "principals" VALUES('system','system',NULL,NULL,NULL,0,0,'system',NULL,NULL,'1970-01-01T00:00:00.000Z',NULL,0);
INSERT INTO "principals" VALUES('ada','user','Ada Löve',NULL,'ada@example.org',1,1,'ada
ada löve','system',NULL,'2027-01-15T08:00:00.000Z',NULL,3);
INSERT INTO "principals" VALUES('ben','user',NULL,NULL,NULL,0,1,'ben
','system',NULL,'2027-01-15T08:00:01.000Z',NULL,3);
INSERT INTO "principals" VALUES('bot-research','bot','Research',NULL,NULL,0,0,'bot-research
research','ada',NULL,'2027-01-15T08:00:01.000Z',NULL,2);
INSERT INTO "principals" VALUES('gone','user',NULL,NULL,NULL,1,1,'gone
','system',NULL,'2027-01-15T08:00:01.000Z',NULL,2);
INSERT INTO "principals" VALUES('bot-old','bot',NULL,NULL,NULL,0,0,'bot-old
','ben',NULL,'2027-01-15T08:00:01.000Z','2030-01-01T00:00:00.000Z',0);
CREATE TABLE runs (
    thread_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    status TEXT NOT NULL,
    PRIMARY KEY (thread_id, run_id)
);
INSERT INTO "runs" VALUES('thr_dv1e1s92aw','m','ada',6,6,'bare');
INSERT INTO "runs" VALUES('thr_dv1e1s92aw','r','bot-research',7,11,'completed');
INSERT INTO "runs" VALUES('thr_dv1e1s92aw','open','bot-research',12,12,'open');
INSERT INTO "runs" VALUES('thr_dv1e1s92aw.sub-ft0k8-t16','s','bot-research',3,5,'failed');
CREATE TABLE thread_keys (
    principal_id TEXT NOT NULL REFERENCES principals,
    parent_id TEXT NOT NULL,
    key TEXT NOT NULL,
    thread_id TEXT NOT NULL REFERENCES threads,
    PRIMARY KEY (principal_id, parent_id, key)
);
INSERT INTO "thread_keys" VALUES('ada','','t/1','thr_dv1e1s92aw');
INSERT INTO "thread_keys" VALUES('bot-research','thr_dv1e1s92aw','k','thr_dv1e1s92aw.sub-ft0k8-t16');
CREATE TABLE threads (
    thread_id TEXT PRIMARY KEY,
    parent_thread_id TEXT REFERENCES threads,
    holder_id TEXT NOT NULL,
    depth INTEGER NOT NULL,
    title TEXT,
    access TEXT NOT NULL,
    members_can_invite INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    archived_at TEXT,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    last_event_at TEXT NOT NULL
);
INSERT INTO "threads" VALUES('thr_dv1e1s92aw',NULL,'thr_dv1e1s92aw',0,'Release 1.4','direct',0,'ada','2027-01-15T08:00:02.000Z',NULL,1,14,'2027-01-15T08:00:04.000Z');
INSERT INTO "threads" VALUES('thr_dv1e1s92aw.sub-ft0k8-t16','thr_dv1e1s92aw','thr_dv1e1s92aw',1,'Sub','inherit',1,'bot-research','2027-01-15T08:00:03.000Z',NULL,1,5,'2027-01-15T08:00:03.000Z');
INSERT INTO "threads" VALUES('thr_rjz1msj1ac',NULL,'thr_rjz1msj1ac',0,NULL,'direct',1,'ben','2027-01-15T08:00:04.000Z','2027-01-15T09:00:00.000Z',1,4,'2027-01-15T08:00:04.000Z');
CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY,
    principal_id TEXT NOT NULL REFERENCES principals,
    hash BLOB NOT NULL UNIQUE,
    tail TEXT NOT NULL,
    label TEXT,
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    expires_at TEXT,
    revoked_at TEXT
);
INSERT INTO "tokens" VALUES('tok_rd6z1rv0whe6m1110rdv','ada',X'50D9931C58279DFBF4B343C64FF4ACA282A21A6E7F5CDC69BBE371F9B6F2A59C','BvMzqY',NULL,'2027-01-15T08:00:00.000Z','2027-01-15T08:00:01.000Z',NULL,NULL);
INSERT INTO "tokens" VALUES('tok_xj1t6bj7nvckjzs2yfst','ben',X'61CBA225D9D94A638D2D898387BB4FA598D92A29CD87B367079E31C88073EE09','akIAjg',NULL,'2027-01-15T08:00:01.000Z','2027-01-15T08:00:01.000Z',NULL,NULL);
INSERT INTO "tokens" VALUES('tok_sqz1y2ksaae0cesppxh0','bot-research',X'CF3C6F0A3D2DCF092AE1CB134B7F9B9227544DAC2C7BB4F95AC17D2FE2D89C81','6Qh6Ck',NULL,'2027-01-15T08:00:01.000Z','2027-01-15T08:00:01.000Z',NULL,NULL);
INSERT INTO "tokens" VALUES('tok_dv3yqctzptp0nx1ebb5g','gone',X'0E786AA592C53EFA5BFAC3B69E5CE575CBA58435AED230CA24AAC902743EC713','ywmtY8',NULL,'2027-01-15T08:00:01.000Z','2027-01-15T08:00:01.000Z',NULL,NULL);
INSERT INTO "tokens" VALUES('tok_bpj4aagahjxmzy71krnt','bot-old',X'7562C6D9F50A7A281D2F231420A89667CEC1F0AF49CCD3CC015E7546CA56FBBD','D4MG8w',NULL,'2027-01-15T08:00:01.000Z','2027-01-15T08:00:01.000Z',NULL,NULL);
INSERT INTO "tokens" VALUES('tok_zf4258aadhngqnn7jfz8','ada',X'5492A8CBC2AE28AEEB593DAE2D7C9811348C727F32306FC89D585F5A35B4E901','4rayYg','laptop','2027-01-15T08:00:04.000Z',NULL,NULL,'2027-01-15T08:00:04.000Z');
CREATE TABLE tool_calls (
    thread_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    PRIMARY KEY (thread_id, run_id, tool_call_id)
);
INSERT INTO "tool_calls" VALUES('thr_dv1e1s92aw','r','toolu_1');
CREATE UNIQUE INDEX principals_by_key ON principals (created_by, key) WHERE key IS NOT NULL;
CREATE INDEX tokens_by_principal ON tokens (principal_id, created_at);
CREATE INDEX grants_by_principal ON grants (principal_id, target_type, target_id);
CREATE INDEX threads_by_parent ON threads (parent_thread_id);
CREATE INDEX threads_by_holder ON threads (holder_id);
CREATE UNIQUE INDEX events_by_key ON events (thread_id, principal_id, key) WHERE key IS NOT NULL;
CREATE INDEX events_by_run ON events (thread_id, run_id, seq) WHERE run_id IS NOT NULL;
CREATE INDEX runs_open_by_author ON runs (principal_id, thread_id) WHERE status = 'open';
CREATE INDEX runs_open_by_thread ON runs (thread_id) WHERE status = 'open';
COMMIT;
