-- An audit store as version 7 of its tables wrote it (sqlite3 .dump).
BEGIN TRANSACTION;
CREATE TABLE alerts (
	fingerprint VARCHAR(255) NOT NULL, 
	rule VARCHAR(255) NOT NULL, 
	status VARCHAR(255) NOT NULL, 
	labels JSON NOT NULL, 
	annotations JSON NOT NULL, 
	starts_at BIGINT NOT NULL, 
	ends_at BIGINT NOT NULL, 
	told VARCHAR(255) NOT NULL, 
	told_at BIGINT NOT NULL, 
	PRIMARY KEY (fingerprint, starts_at)
);
CREATE TABLE archive (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	window BIGINT NOT NULL, 
	cells BIGINT NOT NULL, 
	ends JSON NOT NULL, 
	packed_at BIGINT NOT NULL, 
	packed BLOB NOT NULL, 
	PRIMARY KEY (cluster, topic, window)
);
CREATE TABLE claims (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	window BIGINT NOT NULL, 
	partition BIGINT NOT NULL, 
	reporter VARCHAR(255) NOT NULL, 
	part BIGINT NOT NULL, 
	tier VARCHAR(255) NOT NULL, 
	server VARCHAR(255) NOT NULL, 
	instance VARCHAR(255) NOT NULL, 
	revision BIGINT NOT NULL, 
	count BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	accepted JSON NOT NULL, 
	acknowledged JSON NOT NULL, 
	failed JSON NOT NULL, 
	in_doubt JSON NOT NULL, 
	aborted JSON NOT NULL, 
	filtered JSON NOT NULL, 
	expired JSON NOT NULL, 
	summary JSON NOT NULL, 
	blocks JSON NOT NULL, 
	latency JSON NOT NULL, 
	again JSON NOT NULL, 
	duplicates BIGINT NOT NULL, 
	unstamped BIGINT NOT NULL, 
	malformed BIGINT NOT NULL, 
	min_timestamp BIGINT NOT NULL, 
	max_timestamp BIGINT NOT NULL, 
	skewed BIGINT NOT NULL, 
	acks BIGINT NOT NULL, 
	PRIMARY KEY (cluster, topic, window, partition, reporter, server, instance, part)
);
CREATE TABLE collectors (
	cluster VARCHAR(64) NOT NULL, 
	generation BIGINT NOT NULL, 
	owner VARCHAR(255) NOT NULL, 
	started_at BIGINT NOT NULL, 
	heartbeat BIGINT NOT NULL, 
	discovered_through BIGINT NOT NULL, 
	PRIMARY KEY (cluster)
);
CREATE TABLE copied (
	cluster VARCHAR(255) NOT NULL, 
	reporter VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	partition BIGINT NOT NULL, 
	target_topic VARCHAR(255) NOT NULL, 
	topic_id VARCHAR(255) NOT NULL, 
	through_offset BIGINT NOT NULL, 
	records BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (cluster, reporter, topic, partition)
);
CREATE TABLE damage (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	partition BIGINT NOT NULL, 
	from_offset BIGINT NOT NULL, 
	reason VARCHAR(255) NOT NULL, 
	since BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	to_offset BIGINT NOT NULL, 
	until BIGINT NOT NULL, 
	final BIGINT NOT NULL, 
	PRIMARY KEY (cluster, topic, partition, from_offset)
);
CREATE TABLE deleted (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	partition BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (cluster, topic, partition)
);
CREATE TABLE detached (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	partition BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (cluster, topic, partition)
);
CREATE TABLE graph (
	id INTEGER NOT NULL, 
	valid_from BIGINT NOT NULL, 
	edges JSON NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE incidents (
	id INTEGER NOT NULL, 
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	partition BIGINT NOT NULL, 
	from_offset BIGINT NOT NULL, 
	to_offset BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	kind VARCHAR(255) NOT NULL, 
	count BIGINT NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE lateness (
	edge VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	day BIGINT NOT NULL, 
	sketch JSON NOT NULL, 
	PRIMARY KEY (edge, topic, day)
);
CREATE TABLE meta (
	"key" VARCHAR(64) NOT NULL, 
	value VARCHAR(255) NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('schema','7');
CREATE TABLE observations (
	tier VARCHAR(255) NOT NULL, 
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	window BIGINT NOT NULL, 
	partition BIGINT NOT NULL, 
	server VARCHAR(255) NOT NULL, 
	instance VARCHAR(255) NOT NULL, 
	seen_topic VARCHAR(255) NOT NULL, 
	seen_partition BIGINT NOT NULL, 
	count BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	ranges JSON NOT NULL, 
	copies JSON NOT NULL, 
	aborted JSON NOT NULL, 
	blocks JSON NOT NULL, 
	latency JSON NOT NULL, 
	fingerprint VARCHAR(255) NOT NULL, 
	first_offset BIGINT NOT NULL, 
	last_offset BIGINT NOT NULL, 
	min_timestamp BIGINT NOT NULL, 
	max_timestamp BIGINT NOT NULL, 
	malformed BIGINT NOT NULL, 
	skewed BIGINT NOT NULL, 
	PRIMARY KEY (cluster, topic, window, tier, partition, server, instance, seen_topic, seen_partition)
);
CREATE TABLE openings (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	partition BIGINT NOT NULL, 
	minute BIGINT NOT NULL, 
	hour BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	records BIGINT NOT NULL, 
	refused_at BIGINT NOT NULL, 
	PRIMARY KEY (cluster, topic, partition)
);
CREATE TABLE progress (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	partition BIGINT NOT NULL, 
	topic_id VARCHAR(255) NOT NULL, 
	next_offset BIGINT NOT NULL, 
	leader_epoch BIGINT NOT NULL, 
	generation BIGINT NOT NULL, 
	counted_through BIGINT NOT NULL, 
	high_watermark BIGINT NOT NULL, 
	PRIMARY KEY (cluster, topic, partition)
);
CREATE TABLE recounts (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	partition BIGINT NOT NULL, 
	job VARCHAR(255) NOT NULL, 
	first BIGINT NOT NULL, 
	"end" BIGINT NOT NULL, 
	next_window BIGINT NOT NULL, 
	asked_at BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	windows BIGINT NOT NULL, 
	cells BIGINT NOT NULL, 
	done BOOLEAN NOT NULL, 
	PRIMARY KEY (cluster, topic, partition, job, first)
);
CREATE TABLE repairs (
	id INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	edge VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	window BIGINT NOT NULL, 
	partition BIGINT NOT NULL, 
	server VARCHAR(255) NOT NULL, 
	instance VARCHAR(255) NOT NULL, 
	sequences JSON NOT NULL, 
	copied BIGINT NOT NULL, 
	present BIGINT NOT NULL, 
	outcome VARCHAR(255) NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE reporter_topics (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	reporter VARCHAR(255) NOT NULL, 
	PRIMARY KEY (cluster, topic, reporter)
);
CREATE TABLE reporters (
	cluster VARCHAR(255) NOT NULL, 
	reporter VARCHAR(255) NOT NULL, 
	kind VARCHAR(255) NOT NULL, 
	tier VARCHAR(255) NOT NULL, 
	server VARCHAR(255) NOT NULL, 
	application VARCHAR(255) NOT NULL, 
	instance VARCHAR(255) NOT NULL, 
	consumer_group VARCHAR(255) NOT NULL, 
	acks BIGINT NOT NULL, 
	backfill BOOLEAN NOT NULL, 
	first_seen BIGINT NOT NULL, 
	last_heard BIGINT NOT NULL, 
	covered BIGINT NOT NULL, 
	complete_through BIGINT NOT NULL, 
	closed BOOLEAN NOT NULL, 
	retired_at BIGINT NOT NULL, 
	seen JSON NOT NULL, 
	ahead JSON NOT NULL, 
	PRIMARY KEY (cluster, reporter)
);
CREATE TABLE runs (
	id INTEGER NOT NULL, 
	job VARCHAR(255) NOT NULL, 
	started_at BIGINT NOT NULL, 
	finished_at BIGINT NOT NULL, 
	from_ms BIGINT NOT NULL, 
	to_ms BIGINT NOT NULL, 
	outcome VARCHAR(255) NOT NULL, 
	detail JSON NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE totals (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	span BIGINT NOT NULL, 
	start BIGINT NOT NULL, 
	tier VARCHAR(255) NOT NULL, 
	count BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	latency JSON NOT NULL, 
	PRIMARY KEY (topic, span, start, cluster, tier)
);
CREATE TABLE verdict_history (
	edge VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	window BIGINT NOT NULL, 
	source VARCHAR(255) NOT NULL, 
	revision BIGINT NOT NULL, 
	state VARCHAR(255) NOT NULL, 
	judged_at BIGINT NOT NULL, 
	claimed BIGINT NOT NULL, 
	observed BIGINT NOT NULL, 
	missing BIGINT NOT NULL, 
	duplicates BIGINT NOT NULL, 
	unclaimed BIGINT NOT NULL, 
	explained BIGINT NOT NULL, 
	reasons JSON NOT NULL, 
	PRIMARY KEY (edge, topic, window, source, revision)
);
CREATE TABLE verdicts (
	edge VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	window BIGINT NOT NULL, 
	source VARCHAR(255) NOT NULL, 
	state VARCHAR(255) NOT NULL, 
	revision BIGINT NOT NULL, 
	judged_at BIGINT NOT NULL, 
	claimed BIGINT NOT NULL, 
	observed BIGINT NOT NULL, 
	missing BIGINT NOT NULL, 
	duplicates BIGINT NOT NULL, 
	unclaimed BIGINT NOT NULL, 
	explained BIGINT NOT NULL, 
	reasons JSON NOT NULL, 
	cells JSON NOT NULL, 
	accepted_by VARCHAR(255) NOT NULL, 
	PRIMARY KEY (edge, topic, window, source)
);
CREATE TABLE watermarks (
	edge VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	through BIGINT NOT NULL, 
	horizon BIGINT NOT NULL, 
	holes JSON NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (edge, topic)
);
CREATE TABLE window_changes (
	cluster VARCHAR(255) NOT NULL, 
	topic VARCHAR(255) NOT NULL, 
	window BIGINT NOT NULL, 
	changed_at BIGINT NOT NULL, 
	PRIMARY KEY (cluster, topic, window)
);
CREATE INDEX observations_by_offset ON observations (cluster, seen_topic, seen_partition, last_offset);
CREATE INDEX reporters_by_instance ON reporters (instance);
CREATE INDEX archive_by_time ON archive (cluster, packed_at);
CREATE INDEX totals_by_time ON totals (span, start);
CREATE INDEX window_changes_by_time ON window_changes (cluster, changed_at);
CREATE INDEX verdicts_by_window ON verdicts (window);
CREATE INDEX verdicts_by_state ON verdicts (edge, state, window);
CREATE INDEX incidents_by_time ON incidents (cluster, topic, kind, partition, at);
CREATE INDEX incidents_by_offset ON incidents (cluster, topic, kind, partition, from_offset, to_offset);
CREATE INDEX alerts_by_status ON alerts (status);
COMMIT;
