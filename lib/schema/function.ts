/** SQL functions that queries can call. */
import { type Static, Type } from 'typebox'
import { MapOf, Section } from './annotations.js'

const TypeName = (description: string) =>
  Type.String({
    pattern: '^[A-Za-z_"][^;]{0,99}$',
    expected: 'the name of a PostgreSQL type, at most 100 characters',
    text: 'literal',
    description
  })

export const SqlFunction = Section({
  arguments: Type.Optional(
    MapOf(TypeName('The type, such as `integer`, `text` or `timestamptz`.'), {
      description:
        'The arguments that queries pass, with their types. Arguments with a default in the database can be omitted. Default: none.'
    })
  ),
  returns: Type.Optional(
    TypeName(
      'The return type of the function, such as `integer`, `SETOF articles` or `void`. The start fails if the type in the database differs. Default: not compared.'
    )
  ),
  tenantArgument: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 63,
      text: 'literal',
      description: "The text argument that the server sets to the id of the request's tenant. Queries cannot set it."
    })
  ),
  tenantScoped: Type.Optional(
    Type.Boolean({
      description:
        'The function reads or writes rows of tenants, so a request without a tenant fails with 400. Default: true if the database has tables of tenants.'
    })
  ),
  tables: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: 200,
      description: 'The tables that the function reads and writes, for the cache of responses. Default: all tables.'
    })
  ),
  tenants: Type.Optional(Type.Boolean({ description: 'Documents of tenants can call the function. Default: false.' }))
}, { description: 'A function of the schema, with the types of its arguments.' })
export type SqlFunction = Static<typeof SqlFunction>

export const Functions = MapOf(SqlFunction, {
  default: {},
  description: 'SQL functions that queries call with `operation: "call"`, by their names in the database.'
})
export type Functions = Readonly<Record<string, SqlFunction>>
