/** SQL functions that queries can call. */
import { type Static, Type } from 'typebox'
import { ClosedObject, MapOf, Optional } from './annotations.js'

const TypeName = (description: string) =>
  Type.String({
    pattern: '^[A-Za-z_"][^;]{0,99}$',
    expected: 'the name of a PostgreSQL type, at most 100 characters',
    text: 'literal',
    description
  })

export const SqlFunction = ClosedObject({
  arguments: Optional.Map(
    'The arguments that queries pass, with their types. Arguments with a default in the database can be omitted. Default: none.',
    TypeName('The type, such as `integer`, `text` or `timestamptz`.')
  ),
  returns: Type.Optional(
    TypeName(
      'The return type of the function, such as `integer`, `SETOF articles` or `void`. The start fails if the type in the database differs. Default: not compared.'
    )
  ),
  tenantArgument: Optional.String(
    "The text argument that the server sets to the id of the request's tenant. Queries cannot set it.",
    { minLength: 1, maxLength: 63, text: 'literal' }
  ),
  tenantScoped: Optional.Boolean(
    'The function reads or writes rows of tenants, so a request without a tenant fails with 400. Default: true if the database has tables of tenants.'
  ),
  tables: Optional.Array(
    'The tables that the function reads and writes, for the cache of responses. Default: all tables.',
    Type.String(),
    { maxItems: 200 }
  ),
  tenants: Optional.Boolean('Documents of tenants can call the function. Default: false.')
}, { description: 'A function of the schema, with the types of its arguments.' })
export type SqlFunction = Static<typeof SqlFunction>

export const Functions = MapOf(SqlFunction, {
  default: {},
  description: 'SQL functions that queries call with `operation: "call"`, by their names in the database.'
})
export type Functions = Readonly<Record<string, SqlFunction>>
