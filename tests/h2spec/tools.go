//go:build tools

// Which h2spec the tests run, and what it is built from: versions that Debian's Go builds. Nothing of larder is here.
package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
