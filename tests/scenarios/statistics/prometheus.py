"""Reads Prometheus' text format from standard input by its own client library; prints what it found as JSON."""

import json
import sys

from prometheus_client.parser import text_string_to_metric_families

families = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    samples = [[it.name, it.labels, it.value] for it in family.samples]
    assert family.name not in families, f"{family.name} comes twice"
    families[family.name] = {"type": family.type, "help": family.documentation, "samples": samples}
json.dump(families, sys.stdout)
