//go:build tools

// Package tools names the program that set-up builds, so that go.sum pins everything it is made of.
package tools

import _ "github.com/rhysd/actionlint/cmd/actionlint"
