//go:build tools

// Package pulumi pins the Pulumi CLI and all it is built from (go.sum) for machines that cannot download its release.
package pulumi

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
