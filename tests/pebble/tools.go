//go:build tools

// Which Pebble the tests run: the test CA of Let's Encrypt. Nothing of larder is here.
package tools

import _ "github.com/letsencrypt/pebble/v2/cmd/pebble"
