"""Settings files with one thing wrong, and the line that says so."""

WRONG_FILES = {
    "breakers: {threshold: 0}": "breakers.threshold: must be between 1 and 100, is 0",
    "breakers: {threshold: 101%}": "breakers.threshold: must be between 1 and 100, is 101%",
    "breakers: {threshold: half}": "breakers.threshold: must be a whole number, is half",
    "breakers: {window: often}": (
        "breakers.window: must be a number of outcomes like 20, or a duration like 2m, is often"
    ),
    "breakers: {window: 2d}": "breakers.window: must be between 1s and 1d, is 2d",
    "breakers: {window: 0}": "breakers.window: must be between 1 and 1000 outcomes, is 0",
    "breakers: {window: 5}": (
        "breakers: min must not be larger than window: the breaker would never open, is a mapping"
    ),
    "breakers: {per: queue}": "breakers.per: must be destination or message_type, is queue",
    "breakers: {cooldown: 1ms}": "breakers.cooldown: must be at least 1s, is 1ms",
    "breakers: {for: 1s}": (
        "breakers.for: is not a setting; known here: per, window, threshold, min, cooldown"
    ),
    "instance: my retrier": (
        "instance: must consist of letters, digits, dots, dashes and underscores, is my retrier"
    ),
    "broker: {url: 'kafka://127.0.0.1'}": (
        "broker.url: must begin with amqp://, amqps://, embedded:///, redis://, rediss://, "
        "sentinel:// or sqs://; filesystem://, mongodb://, pgmq:// and sqla+...:// keep fewer promises"
    ),
    "broker: {url: 'memory://'}": (
        "broker.url: must not begin with memory://: its queues are in one process, so no failure of "
        "another program would ever arrive; embedded:/// needs no server either"
    ),
    "broker: {url: 'redis://127.0.0.1/shop'}": (
        "broker.url: must have the number of a database of Redis behind the host, or nothing, which "
        "is 0: redis://127.0.0.1/0"
    ),
    "broker: {url: ['redis://one', 'redis://two']}": (
        "broker.url: must name one URL only: several are for the nodes of a RabbitMQ cluster; the "
        "sentinels of Redis are one URL, as in sentinel://one:26379/0;sentinel://two:26379/0"
    ),
    "broker: {url: 'redis://127.0.0.1', staging_queue_type: classic}": (
        "broker.staging_queue_type: has no meaning with Redis: its queues have no types"
    ),
    "{broker: {url: 'redis://127.0.0.1'}, retries: {keep_transient: true}}": (
        "retries.keep_transient: has no meaning with Redis: it keeps all messages alike"
    ),
    "broker: {url: 'amqp://127.0.0.1', transport_options: {visibility_timeout: 60}}": (
        "broker.transport_options: is for brokers that only Kombu knows, such as Redis, and for SQS"
    ),
    "broker: {url: 'sqs://127.0.0.1'}": (
        "broker.url: must be sqs:// and a region, such as sqs://eu-west-1"
    ),
    "broker: {url: 'sqs://eu-west-1'}\nretries: {drain_timeout: 500ms}": (
        "retries.drain_timeout: must be at least 2s with SQS: in less time the first copies of a batch may "
        "not have come, and they would be staged again and again"
    ),
    "broker: {url: 'sqs://eu-west-1', staging_queue_type: classic}": (
        "broker.staging_queue_type: has no meaning with SQS: its queues have no types"
    ),
    "broker: {url: 'sqs://eu-west-1', transport_options: {endpoint: 'http://127.0.0.1'}}": (
        "broker.transport_options.endpoint: has no meaning with SQS (perhaps endpoint_url is meant); "
        "known are visibility_timeout, wait_time_seconds, endpoint_url, profile_name, role_arn"
    ),
    "broker: {url: 'sqs://eu-west-1', transport_options: {wait_time_seconds: 30}}": (
        "broker.transport_options.wait_time_seconds: must be whole seconds, 20 at most"
    ),
    "broker: {url: 'filesystem://', transport_options: {data_folder: /tmp}}": (
        "broker.transport_options.data_folder: has no meaning with Kombu's filesystem (perhaps data_folder_in is "
        "meant); known are control_folder, data_folder_in, data_folder_out, processed_folder, store_processed, "
        "body_encoding, deadletter_queue, interval_max, interval_start, interval_step, max_retries, polling_interval"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {visibility_timeout: 5}}": (
        "broker.transport_options.visibility_timeout: must be at least 15 (processor.lease): in less "
        "time the copies of a batch would be handed to others while its processor has them, is 5"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {visibility_timeout: soon}}": (
        "broker.transport_options.visibility_timeout: must be a number of seconds"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {visibility_timeout: .inf}}": (
        "broker.transport_options.visibility_timeout: must be a number of seconds"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {priority_steps: [a, b]}}": (
        "broker.transport_options.priority_steps: must be a list of whole numbers that rise, as in [0, 3, 6, 9]"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {priority_steps: 3}}": (
        "broker.transport_options.priority_steps: must be a list of whole numbers that rise, as in [0, 3, 6, 9]"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {sep: ''}}": (
        "broker.transport_options.sep: must be a text that is not empty"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {sep: null}}": (
        "broker.transport_options.sep: must be a text that is not empty"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {global_keyprefix: 5}}": (
        "broker.transport_options.global_keyprefix: must be a text"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {socket_timeout: x}}": (
        "broker.transport_options.socket_timeout: must be a number of seconds above 0, 86,400 at most"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {socket_connect_timeout: -1}}": (
        "broker.transport_options.socket_connect_timeout: must be a number of seconds above 0, 86,400 at most"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {socket_timeout: .nan}}": (
        "broker.transport_options.socket_timeout: must be a number of seconds above 0, 86,400 at most"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {client_name: a b}}": (
        "broker.transport_options.client_name: must be a name of letters, digits and signs without a space"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {socket_keepalive: often}}": (
        "broker.transport_options.socket_keepalive: must be true or false"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {health_check_interval: 2.5}}": (
        "broker.transport_options.health_check_interval: must be a whole number of seconds, 0 or more"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {max_connections: 1}}": (
        "broker.transport_options.max_connections: must be a whole number, at least 3"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {min_other_sentinels: -1}}": (
        "broker.transport_options.min_other_sentinels: must be a whole number, 0 or more"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {master_name: 5}}": (
        "broker.transport_options.master_name: must be a name"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {sentinel_kwargs: {pasword: x}}}": (
        "broker.transport_options.sentinel_kwargs: must be a mapping with username, password, socket_timeout, socket_connect_timeout, socket_keepalive, client_name, ssl, ssl_ca_certs, ssl_certfile, ssl_keyfile, ssl_cert_reqs, ssl_check_hostname"
    ),
    "{broker: {url: 'redis://127.0.0.1', transport_options: {sep: ':'}}, ingestion: {error_queues: ['e:3', e]}}": (
        "ingestion.error_queues[0]: e:3 is the list of priority 3 of the queue e in Redis"
    ),
    "{broker: {url: 'redis://127.0.0.1'}, ingestion: {error_queues: [unacked]}}": (
        "ingestion.error_queues[0]: unacked is a key in which Kombu or Retrier keeps something else "
        "in Redis"
    ),
    "{broker: {url: 'redis://127.0.0.1'}, ingestion: {error_queues: ['_kombu.binding.celery']}}": (
        "ingestion.error_queues[0]: _kombu.binding.celery is a key in which Kombu or Retrier keeps "
        "something else in Redis"
    ),
    "{broker: {url: 'redis://127.0.0.1'}, ingestion: {forward_to: '_retrier:queues'}}": (
        "ingestion.forward_to: _retrier:queues is a key in which Kombu or Retrier keeps something "
        "else in Redis"
    ),
    "broker: {url: 'redis://127.0.0.1', transport_options: {visibility: 60}}": (
        "broker.transport_options.visibility: has no meaning with Redis (perhaps visibility_timeout "
        "is meant); known are visibility_timeout, master_name, client_name, global_keyprefix, "
        "health_check_interval, max_connections, min_other_sentinels, priority_steps, "
        "sentinel_kwargs, sep, socket_connect_timeout, socket_keepalive, socket_timeout"
    ),
    "broker: {url: 'sentinel://one:26379;sentinel://two:26379/2', transport_options: {master_name: a}}": (
        "broker.url: must have the same user, password and number of the database in each part"
    ),
    "broker: {url: 'sentinel://one:26379/0;sentinel://two:26379/0'}": (
        "broker.transport_options: must name the server that the sentinels watch: {master_name: NAME}"
    ),
    "broker: {url: ['amqp://me@one', 'amqp://you@two']}": (
        "broker.url: must name the nodes of one broker: "
        "scheme, user, password and virtual host must be the same in each"
    ),
    "broker: {url: 'amqp://me:Sup@erSecret@127.0.0.1'}": (
        "broker.url: must have a host and a port between 1 and 65535; "
        "/ : @ , in a password are written %2F %3A %40 %2C"
    ),
    "database: {url: 'postgresql://me:Sup@erSecret@127.0.0.1/shop'}": (
        "database.url: must have a host and a port between 1 and 65535; "
        "/ : @ , in a password are written %2F %3A %40 %2C"
    ),
    "broker: {url: 'amqp://me:secret@:5672/'}": (
        "broker.url: must name a host, such as amqp://127.0.0.1"
    ),
    "broker: {url: 'amqp://127.0.0.1/?heartbeat=10'}": (
        "broker.url: takes no parameters: no ? and no # (in a name or password they are written "
        "%3F %23); TLS is set with amqps:// or rediss:// and broker.tls"
    ),
    "broker: {url: 'amqps://127.0.0.1', tls: {ca: nowhere.pem}}": (
        "broker.tls.ca: must name a file that exists, is nowhere.pem"
    ),
    "broker: {url: 'amqps://127.0.0.1', tls: {key: pyproject.toml}}": (
        "broker.tls.key: needs the certificate that it belongs to"
    ),
    "broker: {url: 'amqp://127.0.0.1', tls: {verify: false}}": (
        "broker.tls: is for a broker.url that begins with amqps:// or rediss://"
    ),
    "database: {url: 'postgresql://127.0.0.1/db?sslmod=require'}": (
        "database.url: has a parameter that PostgreSQL's library does not know: sslmod "
        "(perhaps sslmode is meant)"
    ),
    "database: {url: 'postgresql://127.0.0.1/db?sslmode=verify'}": (
        "database.url: has an sslmode that there is not: known are disable, allow, prefer, "
        "require, verify-ca, verify-full"
    ),
    "database: {url: 'postgresql://127.0.0.1/db?sslrootcert=nowhere.pem'}": (
        "database.url: names a file as sslrootcert that does not exist"
    ),
    "broker: {staging_queue_type: mirrored}": (
        "broker.staging_queue_type: must be quorum or classic, is mirrored"
    ),
    "database: {url: 'mysql://127.0.0.1/retrier'}": (
        "database.url: must begin with postgresql:// or sqlite:///"
    ),
    "database: {upgrade: maybe}": "database.upgrade: must be true or false, is maybe",
    "ingestion: {error_queues: error}": "ingestion.error_queues: must be a list, is error",
    "ingestion: {error_queues: [error, {queue: error}]}": (
        "ingestion.error_queues[1]: error is listed twice"
    ),
    "ingestion: {error_queues: [retrier.staging]}": (
        "ingestion.error_queues[0]: retrier.staging is the staging queue of this instance"
    ),
    "ingestion: {error_queues: [{queue: a, dialect: esperanto}]}": (
        "ingestion.error_queues[0].dialect: must be one of nservicebus, retrier, masstransit, spring, symfony, rebus, watermill, easynetq, caf, dramatiq, celery, laravel, taskiq, nestjs, faststream, rabbitmq, sqs, is esperanto"
    ),
    "ingestion: {error_queues: [{queue: a, destinations: {async: a}}]}": (
        "ingestion.error_queues[0].destinations.async: a is a queue that Retrier itself empties"
    ),
    "ingestion: {dialects: [{name: rebus, when: {header: X-Error}}]}": (
        "ingestion.dialects[0].name: "
        "is the name of a format that Retrier knows by itself: choose another, is rebus"
    ),
    "ingestion: {dialects: [{name: a, when: {header: X}}, {name: a, when: {header: Y}}]}": (
        "ingestion.dialects[1].name: a is there twice"
    ),
    "ingestion: {dialects: [{name: a, when: {}}]}": (
        "ingestion.dialects[0].when: "
        "must name a header, a property or a body, as in {header: X-Error}, is a mapping"
    ),
    "ingestion: {dialects: [{name: a, when: {header: X}, queue: X-Origin}]}": (
        "ingestion.dialects[0].queue.from: "
        "must be header:NAME, property:NAME, body:/POINTER or text:VALUE, is X-Origin"
    ),
    "ingestion: {dialects: [{name: a, when: {header: X}, queue: {from: 'body:id'}}]}": (
        "ingestion.dialects[0].queue.from: "
        "must be a JSON pointer into the body, as in body:/order/id, is body:id"
    ),
    "ingestion: {dialects: [{name: a, when: {header: X}, queue: {from: 'header:Q', pattern: x}}]}": (
        "ingestion.dialects[0].queue.pattern: must have one group, as in ^orders/(.*)$, is x"
    ),
    "ingestion: {dialects: [{name: a, when: {header: X}, strip: ['*']}]}": (
        "ingestion.dialects[0].strip[0]: "
        "would leave out ServiceControl.Retry.UniqueMessageId, which a retry needs, is *"
    ),
    "search: {fields: [{name: Order, from: 'header:X'}]}": (
        "search.fields[0].name: "
        "must be a lower-case letter, then up to 63 letters, digits, - and _, is Order"
    ),
    "search: {fields: [{name: a, from: Shop.OrderId}]}": (
        "search.fields[0].from: "
        "must be header:NAME, property:NAME, body:/POINTER or xml:/PATH, is Shop.OrderId"
    ),
    "search: {fields: [{name: a, from: 'body:/a~b'}]}": (
        "search.fields[0].from: "
        "must be a JSON pointer into the body, as in body:/order/id, is body:/a~b"
    ),
    "search: {fields: [{name: a, from: 'xml:order'}]}": (
        "search.fields[0].from: must be names of elements, "
        "as in xml:/order/customer/id or xml:/order/@id, is xml:order"
    ),
    "search: {fields: [{name: order, from: 'header:X'}, {name: order, from: 'header:Y', queues: [a]}]}": (
        "search.fields[1].name: order is there twice for the same queues"
    ),
    "ingestion: {error_queues: [{queue: a, destination: error}, error]}": (
        "ingestion.error_queues[0].destination: error is a queue that Retrier itself empties"
    ),
    "ingestion: {error_queues: [{queue: a, drop_headers: [x-count, Retrier.RetryId]}]}": (
        "ingestion.error_queues[0].drop_headers[1]: "
        "would leave out Retrier.RetryId, which a retry needs, is Retrier.RetryId"
    ),
    "ingestion: {error_queues: [{queue: a, drop_headers: ['*']}]}": (
        "ingestion.error_queues[0].drop_headers[0]: "
        "would leave out ServiceControl.Retry.UniqueMessageId, which a retry needs, is *"
    ),
    "ingestion: {error_queues: [{queue: a, drop_headers: ['servicecontrol.RETRY.ack*']}]}": (
        "ingestion.error_queues[0].drop_headers[0]: would leave out "
        "ServiceControl.Retry.AcknowledgementQueue, which a retry needs, is servicecontrol.RETRY.ack*"
    ),
    "ingestion: {forward_to: error}": (
        "ingestion.forward_to: error is a queue that Retrier itself empties"
    ),
    "ingestion: {prefetch: 0}": "ingestion.prefetch: must be between 1 and 65535, is 0",
    "retries: {forwarding_window: 0}": (
        "retries.forwarding_window: must be between 1 and 1000, is 0"
    ),
    "retries: {forwarding_window_bytes: 16MB}": (
        "retries.forwarding_window_bytes: must be a size like 64KiB, 16MiB or 1GiB, "
        "or a number of bytes, is 16MB"
    ),
    "retries: {drain_timeout: 2}": (
        "retries.drain_timeout: must be a duration like 500ms, 30s, 5m, 1h or 7d, is 2"
    ),
    "retries: {idle_wait: 0s}": (
        "retries.idle_wait: must be longer than 0s and at most 36500d, is 0s"
    ),
    "retries: {presumed_after: never}": (
        "retries.presumed_after: must be a duration like 500ms, 30s, 5m, 1h or 7d, or off, is never"
    ),
    "processor: {lease: 1ms}": ("processor.lease: must be at least 3s, is 1ms"),
    "processor: {lease: }": (
        "processor.lease: must be a duration like 500ms, 30s, 5m, 1h or 7d, has no value"
    ),
    "api: {host: 0.0.0.0}": (
        "api.host: must be a loopback address (127.0.0.0/8, ::1, localhost) "
        "as long as nobody has to log in: write a section `access`, see docs/access.md"
    ),
    "api: {port: 70000}": "api.port: must be between 0 and 65535, is 70000",
    "api: {allowed_hosts: ['*.example']}": (
        "api.allowed_hosts[0]: must be a name or an address, such as retrier.example or "
        "retrier.example:8443, without scheme, path or wildcard, is *.example"
    ),
    "api: {allowed_origins: ['*']}": (
        "api.allowed_origins[0]: must be the origin of web pages, such as https://pulse.example or "
        "http://pulse.example:9090, without path or wildcard, is *"
    ),
    "api: {trusted_proxies: [proxy]}": (
        "api.trusted_proxies[0]: must be an address or a network, such as 10.0.0.7 or 10.0.0.0/8, is proxy"
    ),
    "retention: {events: two weeks}": (
        "retention.events: must be a duration like 500ms, 30s, 5m, 1h or 7d, or off, is two weeks"
    ),
    "retention: {presumed: never}": (
        "retention.presumed: must be a duration like 500ms, 30s, 5m, 1h or 7d, or off, "
        "or resolved, is never"
    ),
    "retention: {operations: 5m}": "retention.operations: must be at least 1h, is 5m",
    "log: {format: text}": "log.format: must be auto, console or json, is text",
    "log: {level: verbose}": "log.level: must be debug, info, warning or error, is verbose",
    "retries: {window: 1}": (
        "retries.window: is not a setting; known here: "
        "forwarding_window, forwarding_window_bytes, drain_timeout, idle_wait, presumed_after, "
        "keep_transient"
    ),
    "policies: {per_second: 0}": "policies.per_second: must be between 1 and 1000000, is 0",
    "policies: {default: retry}": "policies.default: must be wait or dead, is retry",
    "policies: {notices: error}": (
        "policies.notices: error is a queue that Retrier itself empties"
    ),
    "policies: {rule: []}": (
        "policies.rule: is not a setting; known here: default, per_second, notices, classify, "
        "rules, poison"
    ),
    "policies: {poison: {crashes: 0}}": (
        "policies.poison.crashes: must be between 1 and 1000, is 0"
    ),
    "policies: {classify: [{reason: GW_5XX}]}": (
        "policies.classify[0]: must have at least one of queue, message_type, exception, failure_reason, message"
    ),
    "policies: {classify: [{message: '(', reason: GW_5XX}]}": (
        'policies.classify[0].message: is no regular expression of RE2 ("missing ): ("), is ('
    ),
    "policies: {classify: [{message: 'lock(?!ed)', reason: GW_5XX}]}": (
        'policies.classify[0].message: is no regular expression of RE2 ("invalid perl operator: '
        '(?!"): look-around is not known: give what must not be there a reason by an entry before '
        "this one, is lock(?!ed)"
    ),
    "policies: {classify: [{message: 'x{1000}{9}', reason: GW_5XX}]}": (
        'policies.classify[0].message: is no regular expression of RE2 ("bad repetition operator: '
        '{1000}{9}"): leave out the second one, for nothing is tried twice, or put (?:...) around '
        "what it repeats, is x{1000}{9}"
    ),
    "policies: {classify: [{message: '.{1000}.{1000}', reason: GW_5XX}]}": (
        "policies.classify[0].message: takes more than 10000 steps for each character of a text: "
        "repeat less often, write .* in place of .{0,200}, and name letters in place of \\pL, "
        "is .{1000}.{1000}"
    ),
    "policies: {rules: [{name: a, match: {}, attempts: 1001, preset: outbox}]}": (
        "policies.rules[0].attempts: must be between 0 and 1000, is 1001"
    ),
    "policies: {rules: [{name: a, match: {}, preset: outbox}, {name: a, match: {}, preset: outbox}]}": (
        "policies.rules[1].name: a is the name of an earlier rule"
    ),
    "policies: {rules: [{name: a, match: {queue: error}, preset: outbox}]}": (
        "policies.rules[0].match.queue: matches only what Retrier itself empties: error"
    ),
    "policies: {rules: [{name: a, match: {}, preset: outbox, backoff: {kind: exponential, first: 1s, factor: 0.5}}]}": (
        "policies.rules[0].backoff.factor: must be between 1 and 1000, is 0.5"
    ),
    "policies: {rules: [{name: a, match: {}, preset: outbox, backoff: {kind: list, delays: []}}]}": (
        "policies.rules[0].backoff.delays: must hold at least one delay, is a list"
    ),
    "policies: {rules: [{name: a, match: {}, preset: outbox, backoff: {kind: linear, first: 1s}}]}": (
        "policies.rules[0].backoff.step: must be given with the kind linear"
    ),
    "policies: {rules: [{name: a, match: {}, preset: outbox, jitter: some}]}": (
        "policies.rules[0].jitter: must be none, full, equal or {additive: DURATION}, is some"
    ),
}
