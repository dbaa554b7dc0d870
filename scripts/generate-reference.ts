/** Writes docs/reference/configuration.md and tenant-document.md from the schemas of the two documents. */
import { Root } from '../lib/schema/root.js'
import { TenantDocument } from '../lib/tenant-document/schema.js'
import { describe } from './reference-page.js'
import { renew } from './renew.js'

const introduction = `# The document

Look up every member of a tenantry document, with its type, default and bounds. \`scripts/generate-reference.ts\` writes this page
from the document's schema; \`schema.json\` of the package has the same for editors. A small document:

\`\`\`json tenantry
{ "routes": [{ "path": "/hello", "method": "GET", "response": { "hello": "{{query.name || 'you'}}" } }] }
\`\`\`

A document is JSON (comments and trailing commas are allowed) or a module whose default export is the document. All
faults are reported at once, each with its JSON Pointer. Unknown members are refused. Templates, expressions and rules of a
route are checked once its members are valid. Tables and columns that only the database has are checked when the server starts.

Settings: \`{{env.NAME}}\` reads \`NAME\` from the environment, and \`{{env.NAME || 20}}\` has a default. The older form is
\`\${NAME}\`. A \`.env\` beside the document has settings that the environment lacks. A value that is one template becomes the
number or boolean that its member needs. All members accept settings. Those marked *templates* also accept the other sources
(\`body\`, \`params\`, \`query\`, \`auth\`, \`tenant\`, ...), which are read for each request.
`

const tenantIntroduction = `# The document of a tenant

Look up every member that a tenant can save with \`POST /tenant/config\`: its own routes and their settings.
\`scripts/generate-reference.ts\` writes this page from the schema. A small document:

\`\`\`json tenantry tenant
{ "routes": [{ "path": "/greeting", "method": "GET", "response": { "greeting": "{{tenant.config.greeting}}" } }], "settings": { "greeting": "Hello" } }
\`\`\`

Routes have the same members as in [the platform's document](configuration.md), within these bounds:

| Part | At most |
|---|---|
| the document | 1 MB of JSON (1,048,576 bytes), 100,000 values, 10,000 templates and alternatives in them, objects and arrays 64 levels deep |
| \`routes\` | 500 |
| a route | 64 KB of JSON, 2,000 values, 500 templates |
| a path | 500 characters, 32 segments, 16 parameters |
| \`settings\` | 64 KB of JSON, 10,000 values, 16 levels deep |
| any other member | 128 KB of JSON, 3,000 values, 500 templates |

- A tenant's route uses tables with \`tenant_id\`, and reads those of \`tenancy.sharedTables\`; it reaches no other.
- Only members marked *templates* accept templates, which are resolved for each request. \`{{env.NAME}}\` reads the
  settings that the platform names in \`tenancy.env\`, and \`{{secret:KEY}}\` the tenant's own secrets.
- Patterns must match in linear time.
- The cost to compile a route is bounded: 100 filters of a query, 500 fields of a request, 100 computed fields, and so on. The
  fault names the bound.
- The values of an \`enum\` are texts, numbers, booleans and null.
- A path must differ from built-in endpoints, ignoring case, even if the platform turned them off. It must also differ from
  paths that a route of the server always takes first. The response is 409, and names each such route.
- A path has letters, digits and \`._~!$&'+,=@-\` as they are: nothing is encoded.
- All faults are reported at once (400, \`details\`), up to 100.
`

// `supabase` is `postgres` under another name.
renew('docs/reference/configuration.md', `${introduction}\n${describe(Root, ['supabase'])}`)
renew('docs/reference/tenant-document.md', `${tenantIntroduction}\n${describe(TenantDocument)}`)
