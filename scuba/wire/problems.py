"""Every code that a refusal may carry, with the status it comes with (13)."""

_BY_STATUS: dict[int, str] = {
    400: "bad_request invalid_json invalid_text invalid_query invalid_event invalid_chunk"
    " invalid_frame",
    401: "unauthenticated",
    403: "forbidden not_your_run self_approval invites_closed principal_disabled",
    404: "not_found thread_not_found principal_not_found run_not_found tool_call_not_found"
    " artifact_not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "key_conflict seq_conflict run_exists run_complete run_finished principal_exists"
    " last_owner thread_archived future_cursor epoch_changed limit_reached"
    " too_many_subscriptions",
    410: "history_gone",
    412: "version_conflict",
    413: "event_too_large batch_too_large body_too_large",
    415: "unsupported_media_type",
    416: "range_not_satisfiable",
    422: "digest_mismatch",
    426: "upgrade_required",
    429: "rate_limited",
    431: "headers_too_large",
    500: "internal",
    501: "not_implemented",
    503: "unavailable",
    505: "http_version",
}

STATUS: dict[str, int] = {
    code: status for status, codes in _BY_STATUS.items() for code in codes.split()
}
