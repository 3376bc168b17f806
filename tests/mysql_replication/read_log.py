"""The rows of a binary log as mysql-replication decodes them: a line of JSON for each row, with its table, and its columns (before
and after an update). Integers and years are numbers, times and points in time with a zone microseconds, decimals, bits and other dates text; all
texts, bytes and names of enumerations are hexadecimal, and floating-point numbers are the bytes of a double."""

import calendar
import datetime
import decimal
import json
import struct
import sys

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.constants import NONE_SOURCE
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

BIT = 16
TIMESTAMP = 17


def missing(why):
    if why == NONE_SOURCE.COLS_BITMAP:
        return "absent"
    if why == NONE_SOURCE.NULL:
        return None
    return "" if why == NONE_SOURCE.EMPTY_SET else "no date"


def time(value):
    micros = value // datetime.timedelta(microseconds=1)
    # The library is wrong about negative times with a fraction.
    return "not compared" if micros < 0 and micros % 1_000_000 else micros


def plain(value, kind):
    if isinstance(value, int) or kind == BIT:
        return value
    if isinstance(value, float):
        return struct.pack("<d", value).hex()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.timedelta):
        return time(value)
    if kind == TIMESTAMP:
        return calendar.timegm(value.timetuple()) * 1_000_000 + value.microsecond
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "microseconds")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, set):
        value = ",".join(sorted(value))
    return (value.encode() if isinstance(value, str) else value).hex()


def columns(event, row, which):
    values = row[which + "values"]
    none = row[which + "none_sources"]
    assert len(values) == len(event.columns)
    return [
        missing(none[name]) if value is None else plain(value, column.type)
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
