"""What is folded into what: one noun is one file."""


def _package(name: str, table: dict[str, str]) -> dict[str, list[str]]:
    return {
        f"retrier.{name}.{new}": [f"retrier.{name}.{old}" for old in olds.split()]
        for new, olds in table.items()
    }


PACKAGES: dict[str, dict[str, list[str]]] = {}
RENAMES: dict[str, dict[str, str]] = {}
SENTENCES: dict[str, str] = {}
KEEP_PACKAGES: set[str] = set()

PACKAGES["domain"] = _package("domain", {
    "archive_operation": "message_actions archive_operation",
    "breakers": "breaker breaker_counts breaker_verdicts breaker_words",
    "copies": "copies notices",
    "failed_imports": "import_reasons failed_imports reimport",
    "failed_message": "failed_message moves",
    "folding": "agreement folding",
    "receipt": "new_failure last_word receipt",
    "identity": "identity number_ranges",
    "processor_work": "processor_work standstill",
    "retention": "second_look retention",
    "retry_operation": "retry_operation pacing steering plan",
    "schedule": "schedule turns",
    "shown": "shown searched_text",
    "streams": "stream_position streams completed_steps",
    "times": "times asked_times",
    "headers": "headers header_patterns",
})
PACKAGES["policy"] = _package("policy", {
    "classification": "classification gateway_codes",
    "delays": "backoff jitter presets",
    "facts": "chains facts",
    "pattern_time": "pattern_characters pattern_time",
    "policy_set": "rules judging policy_set in_force waiting overruling",
})
PACKAGES["events"] = _package("events", {
    "processor": "processor preparation forwarding stopping breakers outgoing archiving retention",
    "service": "service policies streams",
})
PACKAGES["settings"] = _package("settings", {
    "fields": "fields database_parameters addresses",
    "environment": "env_file knobs",
    "loading": "yaml_text loading policy_file remarks",
    "model": "tls model",
    "policies": "breakers policies policy_clashes policy_definition",
})

SENTENCES |= {f"retrier.domain.{name}": text for name, text in {
    "archive_operation": "What a person can do with failed messages besides a retry: one act, or an operation over many.",
    "breakers": "Breakers: when a destination that fails gets no more retries, and when it gets them again.",
    "copies": "The copies of a message that are published: staged, sent back, for the log queue; and notices.",
    "failed_imports": "Failed imports: why one failed, what a person may do with it, and what it turns out to be today.",
    "failed_message": "A failed message, the failures seen of it, the states it can be in, and why these change.",
    "folding": "Folds a received batch in memory: which message each failure belongs to, and what it changes.",
    "receipt": "What one received batch changes in the store: the values, and whether a failure changes its message.",
    "identity": "Unique message ids: which deliveries are failures of the same message; and numbers as ranges.",
    "processor_work": "What the processor does or waits for, and whether it makes progress.",
    "retention": "What is deleted for its age, how deleting gives way, and how a clock that is ahead deletes nothing.",
    "retry_operation": "Retry operations: a request with a cursor over what it selects; its plan, pace and steering.",
    "schedule": "The schedule: messages that are retried by themselves, each at its time, by rule and queue in turns.",
    "shown": "What people see of one failure, derived from its stored bytes, and the text by which it is found.",
    "streams": "Streams: messages of one queue in an order, what holds one, and the steps that were completed.",
    "times": "Times as messages carry them and as people write them.",
    "headers": "All header names that Retrier reads or writes, and patterns of names that a retry leaves out.",
}.items()}
SENTENCES |= {f"retrier.policy.{name}": text for name, text in {
    "classification": "Classification: which reason a failure has. An operator's rules first, then the built-in table.",
    "delays": "Delays: how long a message waits after its nth failure, with a random part; and presets.",
    "facts": "What policies see of a failure, and what is inside an exception that says nothing.",
    "pattern_time": "How long a regular expression may search in a hostile text: an upper estimate, without a search.",
    "policy_set": "A set of policies: classifies a failure, finds the rule, and decides; and what overrules it.",
}.items()}
SENTENCES |= {f"retrier.events.{name}": text for name, text in {
    "processor": "Events of the processor: its lease, each stage of a batch, and the threads beside them.",
    "service": "Events of the service, of the requests it gets, of its policies and of streams.",
}.items()}
SENTENCES |= {f"retrier.settings.{name}": text for name, text in {
    "fields": "What settings are made of: sections, quantities with a unit, URLs and hosts.",
    "environment": "Variables: those of a file, and those by the names that a job queue uses.",
    "loading": "Reads settings from YAML and the environment; reports all problems at once, a line each.",
    "model": "All settings with their defaults, and what does not go together in them.",
    "policies": "The sections `policies` and `breakers`: keys, values, clashes, and the set that they make.",
}.items()}
RENAMES |= {"retrier.settings.policies": {"Preset": "PresetName"}}

PACKAGES["worker"] = _package("worker", {
    "line": "line pause",
    "running": "stopping running",
    "starts": "starts arrivals",
    "worker": "pages worker",
})
PACKAGES["demo"] = _package("demo", {
    "demo": "hints scenario demo",
    "shop": "client shop_log shop_counts shop",
    "shop_page": "shop_parts shop_view shop_page",
})
PACKAGES["integrations"] = _package("integrations", {
    "celery": "celery_publisher celery_failures celery_requests celery",
    "dramatiq.letters": "dramatiq.bodies dramatiq.arrivals dramatiq.letters",
    "handover": "account owed handover",
})
SENTENCES |= {f"retrier.{name}": text for name, text in {
    "worker.line": "The connections of a worker, and when it takes nothing because something is away or fails.",
    "worker.running": "Handlers at work, what goes on meanwhile, and how a worker ends.",
    "worker.starts": "What this machine's workers have started, and what one makes of a message that arrives.",
    "worker.worker": "The worker: its handlers, its signals and its end, and what its process serves over HTTP.",
    "demo.demo": "Runs the demo: workspace, shop and service, then the scenario or a wait for a person.",
    "demo.shop": "The shop: its orders, the worker that handles them, its log and its counts; and the client.",
    "demo.shop_page": "The page of the shop at `/demo`: what is broken, a button to repair each part, its groups.",
    "integrations.celery": "Gives the failed tasks of a Celery app to Retrier, and confirms its retries: docs/celery.md.",
    "integrations.dramatiq.letters": "What came with a task of Dramatiq, and what is published for it: failure and confirmation.",
    "integrations.handover": "Hands over what has to be told of a task that has ended; what cannot be now is owed, and said.",
}.items()}
RENAMES |= {
    "retrier.worker.pause": {"LONGEST": "LONGEST_PAUSE"},
    "retrier.worker.pages": {"_parse": "_parse_address"},
}

PACKAGES["cli"] = _package("cli", {
    "application": "commands.demo application",
    "archives": "views.archives commands.archives",
    "breakers": "commands.breakers",
    "command": "command ids options",
    "comments": "commands.comments",
    "database": "commands.database",
    "errors": "views.messages commands.errors",
    "events": "event_follower views.events commands.events",
    "imports": "dump import_acts import_options views.imports commands.imports",
    "operations": "views.operations commands.operations commands.steering commands.history",
    "pending": "pending_target views.pending commands.pending",
    "policies": "views.policies commands.policies",
    "processor": "views.processor commands.processor",
    "recovery": "commands.recovery",
    "redirects": "commands.redirects",
    "retry": "views.previews commands.retry commands.dead_messages",
    "selection": "plans selection_options term_options",
    "service": "commands.service",
    "streams": "views.streams commands.streams",
})
SENTENCES |= {f"retrier.cli.{name}": text for name, text in {
    "application": "The whole command line: its commands, the demo, and the options that need no command.",
    "archives": "`retrier archive`, `unarchive`, `resolve`, and the operations that these become.",
    "command": "What all commands share: options, exit codes, short ids, and the tools they work with.",
    "errors": "`retrier errors`: lists failed messages, and shows one of them or its body; and groups.",
    "events": "`retrier events` and `retrier errors history`: what happened, and what happens now.",
    "imports": "`retrier imports`: messages that could not be read, and what can be done with them.",
    "operations": "Groups, operations and batches: listed, watched, steered, and acknowledged when they are over.",
    "pending": "`retrier pending`: the retries whose outcome has not arrived: listed, retried again, resolved.",
    "policies": "`retrier policies`: checks a file of policies, and shows those in force.",
    "processor": "`retrier processor` and `retrier ledger`: what the service does, and whether all adds up.",
    "retry": "`retrier retry`, and `retrier errors revive` and `dead`: asks for a retry, and follows it to its end.",
    "selection": "The options that select messages and say how they are sent, and the plan of a dry run.",
    "streams": "`retrier streams`: messages whose order matters: listed, shown, released.",
}.items()}
RENAMES |= {
    "retrier.cli.commands.demo": {"app": "demo_app"},
    "retrier.cli.commands.steering": {"app": "steering_app"},
    "retrier.cli.commands.history": {"app": "history_app"},
    "retrier.cli.commands.dead_messages": {"app": "given_up_app"},
}

PACKAGES["api"] = _package("api", {
    "answers": "answers problems",
    "application": "routes application",
    "archive": "views.archives acts routes.archive routes.archive_operations routes.dead_messages",
    "breakers": "views.breakers routes.breakers",
    "events": "event_stream routes.events",
    "groups": "views.comments views.history routes.groups routes.comments routes.history",
    "imports": "views.imports routes.imports",
    "live": "relay live_feed",
    "messages": "views.messages views.message_history routes.errors routes.message_history",
    "middleware": "unambiguous middleware",
    "operations": "views.processor views.operations views.previews routes.operations routes.operation_requests routes.steering",
    "policies": "views.policies routes.policies",
    "recovery": "views.recovery routes.recovery",
    "redirects": "routes.redirects",
    "requests": "durations places filters request_context",
    "retries": "routes.retries",
    "selections": "plans selections terms",
    "service": "views.service routes.service",
    "streams": "views.streams routes.streams",
})
SENTENCES |= {f"retrier.api.{name}": text for name, text in {
    "answers": "Answers: JSON with its ETag, 304 for unchanged content, a short cache; and problems.",
    "application": "Builds the API out of its routes, one module per noun.",
    "archive": "Archive, unarchive, resolve, declare dead and revive: by id, of groups, and as operations.",
    "breakers": "Breakers: which destinations get no retries, opened and closed by hand.",
    "events": "The event log: listed, and followed in an answer that does not end.",
    "groups": "Groups of failed messages, their comments, and the history of their retries.",
    "imports": "Failed imports: listed, shown, read again, sent to a queue as they came, deleted.",
    "live": "The live feed: everybody who follows the event log in this process, served by one thread.",
    "messages": "Failed messages: listed, shown as JSON, and the history of one.",
    "middleware": "Refuses unknown hosts, foreign origins, large bodies, and what has two readings, or none.",
    "operations": "Operations and batches: asked for, previewed, shown, paused, resumed, cancelled, rated.",
    "policies": "Policies: the set in force, by which set each process judges, and the simulation.",
    "recovery": "The recovery after a restore: what was on its way, and how long nothing is presumed.",
    "requests": "What a request says: its page, order and filter, times and durations, ids, and who asks.",
    "selections": "The body of a request: which messages, on which terms, and by which plan.",
    "service": "The service itself: health, metrics, ledger, and what the API is.",
    "streams": "Streams: those with open messages, one of them in its order, and its release.",
}.items()}
RENAMES |= {f"retrier.api.{name}": names for name, names in {
    "routes.archive_operations": {"router": "operations_router", "Why": "WhyArchived"},
    "routes.dead_messages": {"router": "dead_router", "LONGEST_WHY": "LONGEST_WHY_DEAD"},
    "routes.comments": {"router": "comments_router", "Comment": "CommentText"},
    "views.history": {"_operation": "_finished"},
    "routes.history": {"router": "history_router"},
    "routes.groups": {"_operation": "_running"},
    "routes.errors": {"_headers": "_body_headers"},
    "routes.message_history": {"router": "history_router", "_unknown": "_no_message"},
    "middleware": {"_LONGEST_SHOWN": "_LONGEST_HOST"},
    "views.previews": {"preview": "shown_preview"},
    "routes.operation_requests": {"router": "requests_router"},
    "routes.steering": {"router": "steering_router"},
    "durations": {"_read": "_read_duration"},
    "filters": {"_read": "_read_moment"},
    "terms": {"_NULL": "_NULL_MEMBER"},
    "views.policies": {"policies": "shown_policies"},
    "views.streams": {"stream": "shown_stream"},
}.items()}

PACKAGES["web"] = _package("web", {
    "application": "warming error_pages routes application",
    "archives": "views.archives views.archived routes.archives routes.archived",
    "breakers": "views.breakers routes.breakers",
    "counts": "pace watches message_watch snapshot series counts",
    "event_lines": "views.event_lines views.message_lines",
    "events": "views.event_log views.history routes.event_log routes.history",
    "forms": "forms views.questions views.confirmations",
    "groups": "views.groups views.group_list listed_groups routes.groups routes.comments",
    "imports": "import_acts import_choice views.imports routes.imports",
    "message": "views.states views.differences views.message routes.message",
    "messages": "views.message_list routes.messages",
    "filters": "filters selected",
    "operation_lines": "views.operations views.batches",
    "operations": "views.operation_list views.operation_page views.cancelling routes.operations",
    "overview": "views.headline views.tiles views.plot views.overview routes.overview",
    "page": "views.flash static_files templating strays showing routes.person",
    "parts": "navigation parts",
    "pending": "views.pending views.pending_acts routes.pending",
    "policies": "views.policies routes.policies",
    "previews": "views.previews routes.retry_all",
    "processor": "views.ledger views.processor routes.processor",
    "redirects": "views.redirects routes.redirects",
    "streams": "views.streams routes.streams",
    "wording": "wording views.facts",
    "pages": "views.pages",
    "bodies": "views.bodies",
    "live_values": "live_values routes.events",
})
RENAMES |= {f"retrier.web.{name}": names for name, names in {
    "routes.archived": {"router": "archived_router", "Query": "ArchivedFilter"},
    "views.message_lines": {"_BAD": "_BAD_LINES"},
    "routes.history": {"router": "history_router"},
    "routes.comments": {"router": "comments_router"},
    "routes.messages": {"AGAIN": "WITHOUT_OUTCOME"},
    "static_files": {"router": "static_router"},
    "routes.person": {"router": "person_router"},
}.items()}
SENTENCES |= {f"retrier.web.{name}": text for name, text in {
    "application": "Builds the page out of its routes, one module per noun; and the pages of errors.",
    "archives": "Archive operations and archived messages: listed, shown, undone, taken back.",
    "breakers": "Breakers: which destinations get no retries now; opened and closed by hand.",
    "counts": "The counts of the page, kept in memory: a page of a million messages must not count them itself.",
    "event_lines": "Lines of the event log and of the history of a message: what happened, when, and to what.",
    "events": "The event log, newest first, narrowed by kind, message and operation; the history of retries.",
    "forms": "The form of an act: its fields, its key, who asks, and what a person is asked once before.",
    "groups": "Failure groups: listed, retried, archived, commented on, and taken note of when they are over.",
    "imports": "Failed imports: listed, shown, read again, sent to a queue as they came, deleted.",
    "message": "One message: why it is in its state, what failed, what changed, and what can be done with it.",
    "messages": "Failed messages: the list, and what can be done with those selected, or with all that match.",
    "filters": "The filter of the list of messages, the selection it means, and what is selected for an act.",
    "operation_lines": "Retry operations and batches as lines: how far, how fast, how long still, and why one waits.",
    "operations": "Retry operations: all of them, one of them, and what a person may do to it while it runs.",
    "overview": "The overview: what is the matter, what is being done about it, and what waits.",
    "page": "Shows a page: its template in the frame, its headers, what was just done, and who asks.",
    "parts": "What the page is built from, and the pages that the bar at the top leads to.",
    "pending": "Pending retries: the list, and how a person ends the wait for an outcome.",
    "policies": "Policies: the set in force, who judges by which, and what others would have decided.",
    "previews": "What a person sees before a retry of many, or of everything that is unresolved.",
    "processor": "The processor, the instances and the ledger: who works, at what, and whether all adds up.",
    "redirects": "Redirects: listed with what they concern, set, changed, deleted.",
    "streams": "Streams: listed with their heads, one in its order, and the release of what is held.",
    "wording": "Numbers, times and durations as people read them; and a name with what it stands for.",
    "live_values": "The texts that open pages replace in place, by key. Templates name the same keys.",
}.items()}

# The store: prepared, not applied. Its contracts (verbs over queries and tables) go with it.
PACKAGES["store"] = _package("store", {
    "archive": "tables.archive_operations tables.archive_operation_messages verbs.message_actions verbs.archive_requests verbs.archiving verbs.archive_acknowledgements",
    "archive_lists": "queries.archive_operations queries.archive_chunks queries.archive_previews queries.archived",
    "attempts": "tables.causes tables.processing_attempts queries.completed_steps queries.attempts",
    "batches": "tables.retry_batches tables.now_forwarding tables.staging_ids queries.batches queries.next_batch",
    "breaker_lists": "queries.breakers queries.breaker_waits",
    "breakers": "tables.breakers tables.breaker_counts verbs.breakers verbs.breaker_counting verbs.holding",
    "claims": "tables.ended_retries tables.claims",
    "comments": "tables.group_comments queries.comments verbs.comments",
    "copying": "tables.unfinished_copy queries.in_use queries.whole_rows verbs.copying",
    "cuts": "queries.cuts",
    "dead_messages": "verbs.dead_messages",
    "engine.sessions": "engine.timeouts engine.sessions",
    "engine.refusals": "engine.certificates engine.refusals",
    "engine.sql_dialect": "engine.code_points engine.arrays engine.sql_dialect",
    "engine.transaction": "engine.hold_watch engine.transaction engine.new_rows",
    "error_queue_reads": "tables.error_queue_reads queries.error_queue_reads verbs.error_queue_reads",
    "event_log": "tables.event_log queries.event_log queries.event_reader queries.bulk_acts verbs.bulk_entries",
    "figures": "queries.monitoring queries.page_counts queries.page_series",
    "forwarding": "verbs.forwarding verbs.windows",
    "groups": "queries.groups queries.group_archives queries.queues",
    "holds": "queries.breaker_holds queries.stream_order",
    "idempotency_keys": "verbs.idempotency_keys",
    "import_acts": "verbs.imports verbs.import_sends",
    "imports": "tables.failed_imports tables.failed_import_sends queries.imports queries.import_chunks",
    "judging": "verbs.judging verbs.standing",
    "lease": "tables.processor_lease verbs.leases",
    "marking": "queries.named verbs.marked verbs.cut_notes verbs.marking",
    "message_details": "queries.details queries.message_marks",
    "message_history": "queries.history_words queries.history_lines queries.former_imports queries.message_history",
    "message_lists": "queries.ordering queries.messages",
    "message_texts": "tables.message_texts verbs.message_texts",
    "messages": "tables.message_locks tables.stream_places tables.failed_messages",
    "next_work": "queries.next_work queries.next_cut queries.processor_work",
    "operation_lists": "queries.operation_outcomes queries.canaries queries.operations queries.history",
    "operation_requests": "verbs.operations verbs.steering verbs.acknowledging",
    "operations": "tables.retry_operations tables.retry_operation_messages tables.retry_operation_canaries",
    "outgoing": "tables.outgoing queries.notices queries.outgoing verbs.outgoing",
    "pending": "queries.presumption queries.pending verbs.presumption",
    "policies": "tables.policy_sets queries.policy_sets verbs.policy_sets queries.policy_simulation",
    "previews": "queries.preview_counts queries.previews",
    "processes": "tables.processes queries.processes verbs.processes",
    "recording": "tables.ledger verbs.stored_before verbs.receiving verbs.recording",
    "recovery": "tables.recovery queries.recovery verbs.recovery",
    "redirects": "tables.message_redirects queries.redirects verbs.redirects",
    "retention": "queries.retention verbs.retention",
    "retry_ends": "verbs.retry_ends verbs.left_batches verbs.cancelling verbs.canaries",
    "schedule": "queries.left_out queries.due queries.turns",
    "schema": "schema schema.messages schema.attempts schema.retries schema.archives schema.service schema.breakers schema.views",
    "selections": "queries.reasons queries.text_search queries.message_ids queries.selections",
    "streams": "queries.held_streams queries.streams verbs.streams",
    "upkeep": "tables.installation queries.sessions verbs.upkeep verbs.trial verbs.upgrade",
    "verification": "queries.verification_rules queries.content_rules queries.dead_rules queries.standing_rules queries.policy_rules queries.stream_rules queries.breaker_rules queries.archive_rules queries.verification",
    "waits": "queries.waits verbs.waits",
    "waiting": "queries.schedules queries.message_waits",
})
KEEP_PACKAGES.add("retrier.store.schema")
PACKAGES["transport"] = _package("transport", {
    "embedded.broker_file": "embedded.rows embedded.broker_file",
    "embedded.kombu_transport": "embedded.channel embedded.kombu_transport",
    "embedded.transport": "embedded.hold embedded.publisher embedded.consumer embedded.transport",
    "rabbitmq.connection": "rabbitmq.entry rabbitmq.breaks rabbitmq.connection",
    "rabbitmq.library": "rabbitmq.silence rabbitmq.raw_message rabbitmq.library",
    "rabbitmq.properties": "rabbitmq.properties rabbitmq.properties.fields rabbitmq.properties.table rabbitmq.properties.salvage rabbitmq.properties.codec",
    "rabbitmq.publisher": "rabbitmq.outcomes rabbitmq.publisher",
    "rabbitmq.queues": "rabbitmq.arguments rabbitmq.queues",
    "rabbitmq.transport": "rabbitmq.trial rabbitmq.transport",
})
PACKAGES["ingestion"] = _package("ingestion", {
    "ingestor": "recording inspection ingestor",
    "parsing": "arrival parsing",
})
PACKAGES["processor"] = _package("processor", {
    "broker": "progress broker",
    "chores": "archiving retention",
    # First: move.py retrier.processor.staging_queue retrier.processor.forwarding_run receive (and
    # what else names ForwardingRun), or staging_queue and forwarding are a circle. Staging imports
    # staging_queue, and the stages may not know each other, so that one stays.
    "forwarding": "window forwarding_run run_bounds forwarding",
    "outgoing": "outgoing_results outgoing",
})
PACKAGES["app"] = _package("app", {
    "cached_query": "cached_query queue_looks whole_names",
    "check": "check_result broker_check check",
    "log": "log log.form log.pace log.lines log.decisions log.words log.writer",
    "metrics": "metrics metrics.archiving metrics.policies metrics.counters metrics.instruments metrics.collectors",
    "parts": "parts composition",
    "reports": "policy_report process_report read_report",
    "schedule": "presumption schedule",
    "server": "api_server page server",
    "service": "startup subscribers service",
})
# Single modules above the packages.
PACKAGES["ground"] = {
    "retrier.gateway": ["retrier.archives", "retrier.comments", "retrier.gateway"],
    "retrier.processes": ["retrier.overlap", "retrier.processes"],
    "retrier.private_files": ["retrier.key_files", "retrier.private_files"],
}
