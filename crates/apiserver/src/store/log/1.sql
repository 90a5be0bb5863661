CREATE TABLE log (
  revision   INTEGER PRIMARY KEY,
  collection TEXT NOT NULL,
  namespace  TEXT NOT NULL,
  name       TEXT NOT NULL,
  deleted    INTEGER NOT NULL,
  object     TEXT NOT NULL
) STRICT;

CREATE TABLE mark (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  revision INTEGER NOT NULL,
  floor    INTEGER NOT NULL
) STRICT;

INSERT INTO mark (id, revision, floor) VALUES (1, 0, 0);
