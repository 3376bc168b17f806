//! The harness of the whole-server scenarios: a scriptable origin, a raw client, a running larder.
