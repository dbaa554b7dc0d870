/**
 * Who may call each built-in endpoint, those of later versions too. An endpoint that is served and stands
 * nowhere here fails a test: whoever adds one says here who may call it.
 */
export const endpoints = {
  public: [
    'GET /health', 'GET /.well-known/oauth-protected-resource/mcp', 'GET /ui', 'GET /doc', 'GET /billing/plans', 'POST /auth/login', 'POST /auth/register', 'POST /auth/refresh', 'POST /auth/password/forgot', 'POST /auth/password/reset', 'POST /auth/email/verify', 'POST /auth/invite/accept', 'GET /files/download/{bucket}/{wildcard}', 'PUT /files/{fileId}/content', 'GET /doc/realtime', 'GET /realtime'
  ],
  signed: [
    'POST /billing/webhook/payprov', 'POST /webhooks/billing/altprov'
  ],
  partial: [
    'POST /auth/mfa/verify'
  ],
  user: [
    'GET /billing/subscription', 'GET /billing/usage', 'GET /usage/summary', 'GET /usage/history', 'GET /tenant/info', 'GET /tenant/rbac', 'GET /tenant/rbac/roles', 'GET /tenant/limits/resources',
    'GET /tenant/limits/resources/usage', 'POST /tenant/limits/resources/check', 'POST /mfa/setup', 'POST /mfa/verify', 'POST /mfa/enable', 'POST /mfa/disable', 'GET /mfa/status',
    'GET /mfa/backup-codes', 'POST /mfa/backup-codes/verify', 'POST /auth/logout', 'POST /auth/logout-all', 'GET /auth/me', 'POST /auth/password', 'POST /auth/email/resend', 'POST /files/resumable', 'PATCH /files/resumable/{id}', 'DELETE /files/resumable/{id}', 'GET /agent/health', 'POST /agent/embeddings', 'POST /agent/embeddings/document',
    'POST /agent/embeddings/search', 'POST /agent/embeddings/batch', 'POST /llm/stream', 'GET /llm/models', 'GET /agent/mcp/tools', 'POST /agent/mcp/execute', 'POST /mcp', 'GET /agent/workflow/status',
    'GET /agent/embeddings/documents', 'GET /agent/embeddings/batch/{id}', 'DELETE /agent/embeddings/document/{id}', 'GET /agent/mcp/servers', 'POST /agent/workflow/run', 'GET /agent/workflow/runs', 'POST /agent/workflow/cancel',
    'GET /agent/workflows', 'POST /agent/chat', 'GET /agent/conversations', 'GET /agent/conversations/{id}', 'DELETE /agent/conversations/{id}', 'POST /llm/chat', 'POST /files/upload', 'GET /files/{fileId}', 'GET /files/signed-url/{bucket}/{wildcard}', 'POST /files/presign', 'POST /files/{fileId}/confirm',
    'GET /files/entity/{entityType}/{entityId}', 'DELETE /files/{fileId}', 'GET /realtime/events'
  ],
  'tenant-admin': [
    'GET /users', 'GET /users/{id}', 'PATCH /users/{id}', 'DELETE /users/{id}', 'POST /users/invite', 'POST /billing/upgrade', 'POST /billing/subscription/sync', 'GET /billing/tenant/products', 'POST /billing/tenant/products', 'POST /billing/tenant/checkout', 'GET /billing/tenant/customers',
    'GET /billing/tenant/subscriptions', 'DELETE /billing/tenant/subscriptions/{id}', 'GET /billing/tenant/customers/{id}/state', 'GET /tenant/config', 'POST /tenant/config',
    'GET /tenant/config/versions', 'GET /tenant/secrets', 'POST /tenant/secrets', 'DELETE /tenant/secrets/{key}', 'POST /tenant/secrets/{key}/rotate', 'POST /tenant/secrets/rotate',
    'GET /tenant/secrets/audit', 'GET /tenant/api-keys', 'POST /tenant/api-keys', 'DELETE /tenant/api-keys/{id}', 'POST /tenant/api-keys/{id}/rotate', 'PUT /tenant/rbac', 'POST /tenant/rbac/roles',
    'PUT /tenant/rbac/roles/{name}', 'DELETE /tenant/rbac/roles/{name}', 'PUT /tenant/limits/resources', 'POST /tenant/limits/resources/track', 'GET /admin/entities/{table}',
    'GET /admin/entities/{table}/{id}', 'DELETE /admin/entities/{table}/{id}', 'POST /admin/entities/{table}/{id}/restore', 'POST /agent/workflow', 'GET /audit', 'GET /webhooks/deliveries',
    'GET /webhooks/secret', 'POST /webhooks/deliveries/{id}/redeliver', 'POST /integrations/{type}/{action}'
  ],
  'platform-admin': [
    'GET /tenants', 'POST /tenants', 'GET /tenants/{id}', 'PATCH /tenants/{id}', 'DELETE /tenants/{id}', 'GET /rbac/roles', 'POST /rbac/roles', 'GET /rbac/roles/{id}', 'PUT /rbac/roles/{id}',
    'DELETE /rbac/roles/{id}', 'GET /rbac/permissions', 'POST /rbac/permissions', 'DELETE /rbac/permissions/{id}', 'POST /rbac/assign', 'DELETE /rbac/unassign', 'GET /rbac/users/{id}/roles',
    'GET /rbac/users/{id}/permissions', 'GET /migration', 'GET /migration/status', 'GET /migration/quick-fix', 'POST /migration/apply', 'POST /publish/init', 'POST /publish/verify',
    'POST /publish/entity', 'GET /system/info', 'GET /metrics', 'GET /cache/stats', 'GET /cache/keys', 'DELETE /cache/clear', 'DELETE /cache/key/{key}', 'GET /queue/stats', 'GET /queue/jobs',
    'POST /queue/jobs', 'GET /queue/jobs/{id}', 'DELETE /queue/jobs/{id}', 'POST /queue/jobs/{id}/retry', 'GET /analytics/summary', 'POST /agent/embeddings/reindex'
  ]
} as const satisfies Record<string, readonly string[]>

export type Access = keyof typeof endpoints
