/** Writes docs/reference/configuration.md and tenant-document.md from the schemas of the two documents. */
import { Root } from '../lib/schema/root.js'
import { TenantDocument } from '../lib/tenant-document/schema.js'
import { describe } from './reference-page.js'
import { renew } from './renew.js'

const introduction = `# The document

Every member that a tenantry document can have. This page is made from the document's schema by
\`scripts/generate-reference.ts\`; \`schema.json\` of the package holds the same for editors.

A document is JSON (comments and trailing commas are allowed) or a module whose default export is the document. All
that is wrong with it is reported at once, each fault with its JSON Pointer. A member that is not known is refused; so
is one that is **not in this version**, with what is missing. Templates, expressions and rules of a route are judged as
soon as its members are right; tables and columns that only the database has, when the server starts.

Settings: \`{{env.NAME}}\` stands for the environment's \`NAME\`, \`{{env.NAME || 20}}\` gives a default, and the older
\`\${NAME}\` reads as \`{{env.NAME}}\`. A \`.env\` beside the document counts where the environment has no such setting. A value
that is one template becomes the number or boolean that its member asks for. Settings can stand in every member; in those
marked *templates* the other sources (\`body\`, \`params\`, \`query\`, \`auth\`, \`tenant\`, ...) can too, and are read anew
for each request.
`

const tenantIntroduction = `# The document of a tenant

What a tenant saves with \`POST /tenant/config\`: routes of its own, and what they need. This page is made from the
schema by \`scripts/generate-reference.ts\`. Routes say the same as in [the platform's document](configuration.md), within
these bounds:

| What | At most |
|---|---|
| the document | 1 MB of JSON (1,048,576 bytes), 100,000 values, 10,000 templates and alternatives in them, objects and arrays 64 levels deep |
| \`routes\` | 500 |
| a route | 64 KB of JSON, 2,000 values, 500 templates |
| a path | 500 characters, 32 segments, 16 parameters |
| \`settings\` | 64 KB of JSON, 10,000 values, 16 levels deep |
| any other member | 128 KB of JSON, 3,000 values, 500 templates |

- A tenant's route uses tables with \`tenant_id\`, and reads those of \`tenancy.sharedTables\`; it reaches no other.
- Templates stand in the members marked *templates* only, and are resolved for each request. \`{{env.NAME}}\` reads the
  settings that the platform names in \`tenancy.env\`, and \`{{secret:KEY}}\` the tenant's own secrets.
- Patterns must match in linear time, and what a route costs to compile is bounded: 100 filters of a query, 500 fields of a
  request, 100 computed fields, and so on; the fault names the bound. The values of an \`enum\` are texts, numbers, booleans and null.
- A path is none of the server's: not that of a built-in endpoint, however upper and lower case are mixed and whether the
  platform turned it off or not, and none of which a route of the server takes every request. The answer is 409, and names each
  such route. A path holds letters, digits and \`._~!$&'+,=@-\` as they are: nothing is encoded.
- All that is wrong is reported at once (400, \`details\`), up to 100 faults.
`

// `supabase` is `postgres` under another name.
renew('docs/reference/configuration.md', `${introduction}\n${describe(Root, ['supabase'])}`)
renew('docs/reference/tenant-document.md', `${tenantIntroduction}\n${describe(TenantDocument)}`)
