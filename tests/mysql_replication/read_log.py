"""The rows of a binary log as mysql-replication decodes them: a line of JSON for each row, with its table, and its columns (before
and after an update). Integers are numbers, texts and bytes hexadecimal, floating-point numbers the bytes of a double; other values are true."""

import json
import struct
import sys

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.constants import NONE_SOURCE
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

# YEAR, BIT, ENUM and SET.
OF_OTHER_FORM = (13, 16, 247, 248)


def plain(value, kind, why_none):
    if value is None and why_none == NONE_SOURCE.COLS_BITMAP:
        return "absent"
    if value is None and why_none == NONE_SOURCE.NULL:
        return None
    if value is None or kind in OF_OTHER_FORM:
        return True
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return struct.pack("<d", value).hex()
    if isinstance(value, (str, bytes)):
        return (value.encode() if isinstance(value, str) else value).hex()
    return True


def columns(event, row, which):
    values = row[which + "values"]
    none = row[which + "none_sources"]
    assert len(values) == len(event.columns)
    return [
        plain(value, column.type, none.get(name))
        for (name, value), column in zip(values.items(), event.columns)
    ]


stream = BinLogStreamReader(
    connection_settings={"unix_socket": sys.argv[1], "user": "root", "passwd": ""},
    server_id=77,
    log_file=sys.argv[2],
    log_pos=4,
    only_schemas=["shop"],
    only_events=[DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent],
)
for event in stream:
    for row in event.rows:
        if isinstance(event, UpdateRowsEvent):
            sides = [columns(event, row, "before_"), columns(event, row, "after_")]
        else:
            sides = [columns(event, row, "")]
        print(json.dumps([event.table, *sides]))
