// Answers questions about roles and bindings as a Kubernetes API server does, so that tests can compare.
//
// Reads one JSON object per line, with "op" saying what is asked, and writes one JSON object per line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

type question struct {
	Op                  string
	Roles               []*rbacv1.Role
	ClusterRoles        []*rbacv1.ClusterRole
	RoleBindings        []*rbacv1.RoleBinding
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	User                user.DefaultInfo
	Attributes          struct {
		Verb, Group, Resource, Subresource, Name, Namespace string
		Path                                                *string
	}
	// The rules that someone wants to grant.
	Rules []rbacv1.PolicyRule
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		var q question
		var result any
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			result = map[string]any{"broken": err.Error()}
		} else {
			result = reply(&q)
		}
		text, err := json.Marshal(result)
		if err != nil {
			panic(err)
		}
		_, _ = out.Write(append(text, '\n'))
		_ = out.Flush()
	}
}

func reply(q *question) any {
	resolver, static := validation.NewTestRuleResolver(q.Roles, q.RoleBindings, q.ClusterRoles, q.ClusterRoleBindings)
	switch q.Op {
	case "bootstrap":
		return map[string]any{
			"roles":    bootstrappolicy.ClusterRoles(),
			"bindings": bootstrappolicy.ClusterRoleBindings(),
		}
	case "decide":
		return decide(q, rbac.New(static, static, static, static))
	case "grant":
		ctx := genericapirequest.WithUser(context.Background(), &q.User)
		ctx = genericapirequest.WithNamespace(ctx, q.Attributes.Namespace)
		if err := validation.ConfirmNoEscalation(ctx, resolver, q.Rules); err != nil {
			return map[string]any{"refusal": err.Error()}
		}
		return map[string]any{}
	}
	return map[string]any{"broken": fmt.Sprintf("no such operation: %q", q.Op)}
}

func decide(q *question, rules *rbac.RBACAuthorizer) any {
	attributes := authorizer.AttributesRecord{
		User:            &q.User,
		Verb:            q.Attributes.Verb,
		APIGroup:        q.Attributes.Group,
		Resource:        q.Attributes.Resource,
		Subresource:     q.Attributes.Subresource,
		Name:            q.Attributes.Name,
		Namespace:       q.Attributes.Namespace,
		ResourceRequest: q.Attributes.Path == nil,
	}
	if q.Attributes.Path != nil {
		attributes.Path = *q.Attributes.Path
	}
	decision, reason, _ := rules.Authorize(context.Background(), attributes)
	resources, paths, _, _ := rules.RulesFor(context.Background(), &q.User, q.Attributes.Namespace)
	return map[string]any{
		"allowed":       decision == authorizer.DecisionAllow,
		"reason":        reason,
		"refusal":       responsewriters.ForbiddenStatusError(attributes, "").Error(),
		"resourceRules": len(resources),
		"pathRules":     len(paths),
	}
}
