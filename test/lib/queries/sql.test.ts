import { test } from 'tap'
import type { Scope } from '../../../lib/expressions/types.js'
import type { QueryContext } from '../../../lib/queries/index.js'
import type { DocumentQuery, Query } from '../../../lib/schema/query.js'
import { scopeTenant } from '../../helpers/scope-tenant.js'
import { compile, compileDocument, scopeOf } from './helpers.js'

/** The wrapper of every statement with a possibly large text (`lib/queries/sql.ts`); the cases below leave it out. */
function withinBound (sql: string): string {
  const { before, inner } =
    /^(?<before>with w as .*? |)select case when octet_length\(a\.t\) > 16777216 then width_bucket\(0::float8, 0, 1, -octet_length\(a\.t\)\)::text else a\.t end from \((?<inner>select .*?)(?: offset 0)?\) a\(t\)$/
      .exec(sql)?.groups ?? {}
  return before === undefined || inner === undefined ? sql : before + inner
}

/** A query, a request, and the resulting statement. */
interface Case<Q> {
  readonly name: string
  readonly query: Q
  readonly scope: Partial<Scope>
  readonly context?: Partial<QueryContext>
  readonly sql: string
  readonly values: unknown[]
}

const { raw } = String
const id = '11111111-1111-4111-8111-111111111111'
const long = 'x'.repeat(1_000_001)

const reads: Case<Query>[] = [
  {
    name: 'a first page with a common limit',
    query: { table: 'countries', operation: 'select' },
    scope: {},
    sql:
      raw`select concat('{"data":', coalesce(array_to_json(array_agg(r.*)), '[]'), ',"pagination":{"limit":20,"offset":0,"total":', case when count(*) < 20 then count(*) else (select count(*) from "public"."countries" t1) end, '}}') from (select t0."code", t0."name" from "public"."countries" t0 order by t0."code" limit 20) r`,
    values: []
  },
  {
    name: 'a later page, or one with another limit',
    query: { table: 'countries', operation: 'select', order: [{ column: 'name', ascending: false, nullsFirst: false }], limit: 7 },
    scope: { query: { offset: 5, limit: 300 } },
    sql:
      raw`select concat('{"data":', coalesce(array_to_json(array_agg(r.*)), '[]'), ',"pagination":{"limit":', $1::bigint, ',"offset":', $2::bigint, ',"total":', case when count(*) < $1::bigint and (count(*) > 0 or $2::bigint = 0) then $2::bigint + count(*) else (select count(*) from "public"."countries" t1) end, '}}') from (select t0."code", t0."name" from "public"."countries" t0 order by t0."name" desc nulls last, t0."code" desc limit $1::bigint offset $2::bigint) r`,
    values: [100, 5]
  },
  {
    name: "a later page with the list's own limit",
    query: { table: 'countries', operation: 'select', limit: 7 },
    scope: { query: { offset: 5 } },
    sql:
      raw`select concat('{"data":', coalesce(array_to_json(array_agg(r.*)), '[]'), ',"pagination":{"limit":', 7, ',"offset":', $1::bigint, ',"total":', case when count(*) < 7 and (count(*) > 0 or $1::bigint = 0) then $1::bigint + count(*) else (select count(*) from "public"."countries" t1) end, '}}') from (select t0."code", t0."name" from "public"."countries" t0 order by t0."code" limit 7 offset $1::bigint) r`,
    values: [5]
  },
  {
    name: 'a record by its key',
    query: { table: 'articles', operation: 'select', select: 'id, heading:title', id: '{{params.id}}' },
    scope: { params: { id } },
    sql:
      raw`select row_to_json(r.*)::text from (select t0."id", t0."title" as "heading" from "public"."articles" t0 where t0."tenant_id" = $1::text and t0."deleted" = false and t0."id" = $2::uuid) r`,
    values: ['a', id]
  },
  {
    name: 'a record by a key of two columns',
    query: { table: 'seats', operation: 'select', id: { venue: '{{params.v}}', number: '{{params.n}}' } },
    scope: { params: { v: 'x', n: '3' } },
    sql:
      raw`select row_to_json(r.*)::text from (select t0."venue", t0."number", t0."holder" from "public"."seats" t0 where t0."venue" = $1::text and t0."number" = $2::integer) r`,
    values: ['x', '3']
  },
  {
    name: 'the first record in the order',
    query: { table: 'reviews', operation: 'select', select: 'id', single: true, order: { column: 'stars', ascending: false } },
    scope: {},
    sql:
      raw`select row_to_json(r.*)::text from (select t0."id" from "public"."reviews" t0 where t0."tenant_id" = $1::text and t0."deleted" is not true order by t0."stars" desc, t0."id" desc limit 1) r`,
    values: ['a']
  },
  {
    name: 'filters of every operator',
    query: {
      table: 'articles',
      operation: 'select',
      select: 'id',
      single: true,
      filters: [
        { column: 'status', value: 'x' },
        { column: 'status', operator: 'neq', value: 'y' },
        { column: 'views', operator: 'gt', value: 1 },
        { column: 'rating', operator: 'gte', value: 1.5 },
        { column: 'published_at', operator: 'lt', value: '2026-01-01' },
        { column: 'views', operator: 'lte', value: '{{query.max}}' },
        { column: 'title', operator: 'like', value: 'a%' },
        { column: 'id', operator: 'ilike', value: '%ab%' },
        { column: 'meta', operator: 'is', value: null },
        { column: 'featured', operator: 'is', value: 'unknown' },
        { column: 'mood', operator: 'in', value: 'calm,wild' },
        { column: 'tags', operator: 'contains', value: ['a'] },
        { column: 'meta', operator: 'contains', value: { a: 1 } },
        { column: 'tags', operator: 'overlaps', value: '{{query.tags}}' }
      ]
    },
    scope: { query: { max: '7', tags: 'p,q' } },
    sql:
      raw`select row_to_json(r.*)::text from (select t0."id" from "public"."articles" t0 where t0."tenant_id" = $1::text and t0."deleted" = false and t0."status" = $2::text and t0."status" <> $3::text and t0."views" > $4::integer and t0."rating" >= $5::numeric and t0."published_at" < $6::timestamp with time zone and t0."views" <= $7::integer and t0."title" like $8::text and t0."id"::text ilike $9::text and t0."meta" is null and t0."featured" is unknown and t0."mood" = any($10::mood[]) and t0."tags" @> $11::text[] and t0."meta" @> $12::jsonb and t0."tags" && $13::text[] order by t0."id" limit 1) r`,
    values: ['a', 'x', 'y', 1, 1.5, '2026-01-01', '7', 'a%', '%ab%', ['calm', 'wild'], ['a'], '{"a":1}', ['p', 'q']]
  },
  {
    name: 'groups without optional filters that have no value',
    query: {
      table: 'seats',
      operation: 'select',
      select: 'number',
      single: true,
      filters: [
        {
          or: [
            { column: 'venue', value: 'x' },
            {
              not: {
                and: [{ column: 'number', value: 1 }, { column: 'holder', operator: 'ilike', value: '%{{query.q}}%', optional: true }]
              }
            }
          ]
        },
        { or: [{ column: 'holder', value: '{{query.q}}', optional: true }] }
      ]
    },
    scope: {},
    sql:
      raw`select row_to_json(r.*)::text from (select t0."number" from "public"."seats" t0 where (t0."venue" = $1::text or not ((t0."number" = $2::integer))) order by t0."venue", t0."number" limit 1) r`,
    values: ['x', 1]
  },
  {
    name: 'embedded tables: one, many, counted, one to one, of the same table',
    query: {
      table: 'authors',
      operation: 'select',
      select: 'name, country:countries(name), articles(title), n:articles(count), profiles(bio), mentor_id(name)',
      id
    },
    scope: {},
    sql:
      raw`select row_to_json(r.*)::text from (select t0."name", (select row_to_json(t1.*) from (select t2."name" from "public"."countries" t2 where t2."code" = t0."country_code") t1) as "country", (select coalesce(json_agg(t3.*), '[]') from (select t4."title" from "public"."articles" t4 where t4."author_id" = t0."id" and t4."tenant_id" = $1::text and t4."deleted" = false order by t4."id") t3) as "articles", (select concat('[{"count":', count(*), '}]')::json from "public"."articles" t5 where t5."author_id" = t0."id" and t5."tenant_id" = $1::text and t5."deleted" = false) as "n", (select row_to_json(t6.*) from (select t7."bio" from "public"."profiles" t7 where t7."author_id" = t0."id" and t7."tenant_id" = $1::text) t6) as "profiles", (select row_to_json(t8.*) from (select t9."name" from "public"."authors" t9 where t9."id" = t0."mentor_id" and t9."tenant_id" = $1::text) t8) as "mentor_id" from "public"."authors" t0 where t0."tenant_id" = $1::text and t0."id" = $2::uuid) r`,
    values: ['a', id]
  },
  {
    name: 'embedded through a junction',
    query: { table: 'labels', operation: 'select', select: 'name, articles(title)', id: 1 },
    scope: {},
    sql:
      raw`select row_to_json(r.*)::text from (select t0."name", (select coalesce(json_agg(t1.*), '[]') from (select t2."title" from "public"."articles" t2 join "public"."article_labels" t3 on t2."id" = t3."article_id" where t3."label_id" = t0."id" and t3."tenant_id" = $1::text and t2."tenant_id" = $1::text and t2."deleted" = false order by t2."id") t1) as "articles" from "public"."labels" t0 where t0."tenant_id" = $1::text and t0."id" = $2::integer) r`,
    values: ['a', 1]
  },
  {
    name: 'a page embeds only for its own rows',
    query: { table: 'reviews', operation: 'select', select: 'stars, authors!author_id(name)' },
    scope: {},
    sql:
      raw`select concat('{"data":', coalesce(array_to_json(array_agg(r.*)), '[]'), ',"pagination":{"limit":20,"offset":0,"total":', case when count(*) < 20 then count(*) else (select count(*) from "public"."reviews" t4 where t4."tenant_id" = $1::text and t4."deleted" is not true) end, '}}') from (select t1."stars", (select row_to_json(t2.*) from (select t3."name" from "public"."authors" t3 where t3."id" = t1."author_id" and t3."tenant_id" = $1::text) t2) as "authors" from (select t0.* from "public"."reviews" t0 where t0."tenant_id" = $1::text and t0."deleted" is not true order by t0."id" limit 20) t1) r`,
    values: ['a']
  }
]

const writes: Case<Query>[] = [
  {
    name: 'an insert of a row',
    query: { table: 'countries', operation: 'insert' },
    scope: { body: { name: 'Chile', code: 'cl' } },
    sql:
      raw`insert into "public"."countries" as t0 ("code", "name") values ($1::text, $2::text) returning row_to_json(t0.*)::text`,
    values: ['cl', 'Chile']
  },
  {
    name: 'an insert of a large row, whose result may be too large',
    query: { table: 'countries', operation: 'insert' },
    scope: { body: { name: long, code: 'cl' } },
    sql:
      raw`with w as (insert into "public"."countries" as t0 ("code", "name") values ($1::text, $2::text) returning t0."code", t0."name") select row_to_json(r.*)::text from w r`,
    values: ['cl', long]
  },
  {
    name: 'an insert with columns in another order',
    query: { table: 'countries', operation: 'insert', select: 'name, code' },
    scope: { body: { name: 'Chile', code: 'cl' } },
    sql:
      raw`with w as (insert into "public"."countries" as t0 ("code", "name") values ($1::text, $2::text) returning t0."name", t0."code") select row_to_json(r.*)::text from w r`,
    values: ['cl', 'Chile']
  },
  {
    name: 'an insert whose result has columns with the names of others',
    query: { table: 'countries', operation: 'insert', select: 'code:name, name:code' },
    scope: { body: { name: 'Chile', code: 'cl' } },
    sql:
      raw`with w as (insert into "public"."countries" as t0 ("code", "name") values ($1::text, $2::text) returning t0."name" as "code", t0."code" as "name") select row_to_json(r.*)::text from w r`,
    values: ['cl', 'Chile']
  },
  {
    name: 'an insert of only defaults',
    query: { table: 'seats', operation: 'insert', select: 'holder' },
    scope: { body: {} },
    sql: raw`with w as (insert into "public"."seats" as t0 default values returning t0."holder") select row_to_json(r.*)::text from w r`,
    values: []
  },
  {
    name: 'an insert into a tenant table',
    query: { table: 'labels', operation: 'insert' },
    scope: { body: { name: 'red', id: 1 } },
    sql:
      raw`insert into "public"."labels" as t0 ("tenant_id", "id", "name") values ($1::text, $2::integer, $3::text) returning row_to_json(t0.*)::text`,
    values: ['a', 1, 'red']
  },
  {
    name: 'an insert of many rows',
    query: { table: 'labels', operation: 'insert', select: 'id' },
    scope: { body: [{ name: 'red', id: 1 }, { id: 2 }] },
    sql:
      raw`with w as (insert into "public"."labels" as t0 ("tenant_id", "id", "name") select $1::text, x."id", x."name" from json_to_recordset($2::json) as x("id" integer, "name" text) returning t0."id") select concat('{"data":', coalesce(json_agg(row_to_json(r.*))::text, '[]'), '}') from w r`,
    values: ['a', '[{"id":1,"name":"red"},{"id":2}]']
  },
  {
    name: 'an insert of many rows, some with a default',
    query: { table: 'articles', operation: 'insert', select: 'id' },
    scope: { body: [{ title: 'x', views: 1 }, { title: 'y' }] },
    sql:
      raw`with w as (insert into "public"."articles" as t0 ("tenant_id", "title", "views") values ($1::text, $2::text, $3::integer), ($1::text, $4::text, default) returning t0."id") select concat('{"data":', coalesce(json_agg(row_to_json(r.*))::text, '[]'), '}') from w r`,
    values: ['a', 'x', 1, 'y']
  },
  {
    name: 'an insert that refers to a row, and embeds it',
    query: { table: 'profiles', operation: 'insert', select: 'bio, authors(name)' },
    scope: { body: { author_id: id, bio: 'b' } },
    sql:
      raw`with w as (insert into "public"."profiles" as t0 ("tenant_id", "author_id", "bio") values ($1::text, $2::uuid, $3::text) returning t0.*) select row_to_json(r.*)::text from (select t1."bio", (select row_to_json(t2.*) from (select t3."name" from "public"."authors" t3 where t3."id" = t1."author_id" and t3."tenant_id" = $1::text) t2) as "authors" from w t1 where case when t1."author_id" is null or exists (select from "public"."authors" t4 where t4."id" = t1."author_id" and t4."tenant_id" = $1::text) then true else (select ntile(0) over () > 0) end) r`,
    values: ['a', id, 'b']
  },
  {
    name: 'an upsert by the primary key',
    query: { table: 'labels', operation: 'upsert', select: 'id' },
    scope: { body: { name: 'red', id: 1 } },
    sql:
      raw`with w as (insert into "public"."labels" as t0 ("tenant_id", "id", "name") values ($1::text, $2::integer, $3::text) on conflict ("id") do update set "name" = excluded."name" where t0."tenant_id" = $1::text returning t0."id") select row_to_json(r.*)::text from w r`,
    values: ['a', 1, 'red']
  },
  {
    name: 'an upsert by another key',
    query: { table: 'articles', operation: 'upsert', select: 'id', onConflict: ['tenant_id', 'slug'] },
    scope: { body: { title: 'x', slug: 's' } },
    sql:
      raw`with w as (insert into "public"."articles" as t0 ("tenant_id", "title", "slug") values ($1::text, $2::text, $3::text) on conflict ("tenant_id", "slug") do update set "title" = excluded."title" where t0."tenant_id" = $1::text and t0."deleted" = false returning t0."id") select row_to_json(r.*)::text from w r`,
    values: ['a', 'x', 's']
  },
  {
    name: 'an upsert of many rows',
    query: { table: 'labels', operation: 'upsert', select: 'id' },
    scope: { body: [{ name: 'red', id: 1 }] },
    sql:
      raw`with w as (insert into "public"."labels" as t0 ("tenant_id", "id", "name") select $1::text, x."id", x."name" from json_to_recordset($2::json) as x("id" integer, "name" text) on conflict ("id") do update set "name" = excluded."name" where t0."tenant_id" = $1::text returning t0."id") select concat('{"data":', coalesce(json_agg(row_to_json(r.*))::text, '[]'), '}', case when count(*) = $3::bigint then '' else sqrt(-1 - count(*)::float8)::text end) from w r`,
    values: ['a', '[{"id":1,"name":"red"}]', 1]
  },
  {
    name: 'an upsert whose key is in the path',
    query: { table: 'articles', operation: 'upsert', id: '{{params.id}}', select: 'id' },
    scope: { params: { id }, body: { title: 'x' } },
    sql:
      raw`with w as (insert into "public"."articles" as t0 ("tenant_id", "id", "title") values ($1::text, $2::uuid, $3::text) on conflict ("id") do update set "title" = excluded."title" where t0."tenant_id" = $1::text and t0."deleted" = false returning t0."id") select row_to_json(r.*)::text from w r`,
    values: ['a', id, 'x']
  },
  {
    name: 'an upsert of the key alone',
    query: { table: 'countries', operation: 'upsert', select: 'code' },
    scope: { body: { code: 'cl' } },
    sql:
      raw`with w as (insert into "public"."countries" as t0 ("code") values ($1::text) on conflict ("code") do update set "code" = excluded."code" returning t0."code") select row_to_json(r.*)::text from w r`,
    values: ['cl']
  },
  {
    name: 'an update of one row',
    query: { table: 'articles', operation: 'update', select: 'title', id: '{{params.id}}' },
    scope: { params: { id }, body: { title: 'x', meta: { a: [1] }, tags: ['x'] } },
    sql:
      raw`with w as (update "public"."articles" t0 set "title" = $1::text, "tags" = $2::text[], "meta" = $3::jsonb where t0."tenant_id" = $4::text and t0."deleted" = false and t0."id" = $5::uuid returning t0."title") select row_to_json(r.*)::text from w r`,
    values: ['x', ['x'], '{"a":[1]}', 'a', id]
  },
  {
    name: 'an update without a column to set',
    query: { table: 'articles', operation: 'update', select: 'title', id: '{{params.id}}' },
    scope: { params: { id }, body: {} },
    sql:
      raw`select row_to_json(r.*)::text from (select t0."title" from "public"."articles" t0 where t0."tenant_id" = $1::text and t0."deleted" = false and t0."id" = $2::uuid) r`,
    values: ['a', id]
  },
  {
    name: 'an update of several rows',
    query: {
      table: 'articles',
      operation: 'update',
      select: 'title',
      filters: [{ column: 'status', value: 'draft' }],
      data: { status: 'published', published_at: '{{body.at}}' }
    },
    scope: { body: {} },
    sql:
      raw`with w as (update "public"."articles" t0 set "status" = $1::text where t0."tenant_id" = $2::text and t0."deleted" = false and t0."status" = $3::text returning t0."title") select concat('{"data":', coalesce(json_agg(row_to_json(r.*))::text, '[]'), '}') from w r`,
    values: ['published', 'a', 'draft']
  },
  {
    name: 'an update of a reference',
    query: { table: 'articles', operation: 'update', select: 'title', id },
    scope: { body: { author_id: id } },
    sql:
      raw`with w as (update "public"."articles" t0 set "author_id" = $1::uuid where t0."tenant_id" = $2::text and t0."deleted" = false and t0."id" = $3::uuid returning t0.*) select row_to_json(r.*)::text from (select t1."title" from w t1 where case when t1."author_id" is null or exists (select from "public"."authors" t2 where t2."id" = t1."author_id" and t2."tenant_id" = $2::text) then true else (select ntile(0) over () > 0) end) r`,
    values: [id, 'a', id]
  },
  {
    name: 'a delete',
    query: { table: 'articles', operation: 'delete', id: '{{params.id}}' },
    scope: { params: { id } },
    sql:
      raw`delete from "public"."articles" t0 where t0."tenant_id" = $1::text and t0."deleted" = false and t0."id" = $2::uuid returning '{"success":true}'`,
    values: ['a', id]
  },
  {
    name: 'a delete of several rows',
    query: { table: 'seats', operation: 'delete', filters: [{ column: 'venue', value: 'x' }] },
    scope: {},
    sql: raw`with w as (delete from "public"."seats" t0 where t0."venue" = $1::text returning 1) select '{"success":true}' from w limit 1`,
    values: ['x']
  },
  {
    name: 'a soft delete',
    query: { table: 'articles', operation: 'delete', id: '{{params.id}}' },
    scope: { params: { id } },
    context: { softDelete: { enabled: true, allowHardDelete: true } },
    sql:
      raw`update "public"."articles" t0 set "deleted" = true, "deleted_at" = now() where t0."tenant_id" = $1::text and t0."deleted" = false and t0."id" = $2::uuid returning '{"success":true,"softDeleted":true}'`,
    values: ['a', id]
  },
  {
    name: 'a hard delete on a route with soft delete',
    query: { table: 'articles', operation: 'delete', id: '{{params.id}}' },
    scope: { params: { id }, query: { hard: true } },
    context: { softDelete: { enabled: true, allowHardDelete: true } },
    sql: raw`delete from "public"."articles" t0 where t0."tenant_id" = $1::text and t0."id" = $2::uuid returning '{"success":true}'`,
    values: ['a', id]
  }
]

const documents: Case<DocumentQuery>[] = [
  {
    name: 'a document by its id',
    query: { collection: 'notes', operation: 'get', docId: '{{params.id}}' },
    scope: { params: { id: 'x' } },
    sql:
      raw`select (d."data" || jsonb_build_object('id', d."id"))::text from "tenantry"."documents" d where d."tenant_id" = $1::text and d."collection" = $2::text and d."id" = $3::text`,
    values: ['a', 'notes', 'x']
  },
  {
    name: 'a page of documents',
    query: {
      collection: 'notes',
      operation: 'query',
      filters: [{ column: 'age', operator: 'gte', value: 3 }, { column: 'owner.name', value: 'Ada' }],
      order: { column: 'age', ascending: false }
    },
    scope: {},
    sql:
      raw`select concat('{"data":', coalesce(json_agg((r."data" || jsonb_build_object('id', r."id")))::text, '[]'), ',"pagination":{"limit":20,"offset":0,"total":', case when count(*) < 20 then count(*) else (select count(*) from "tenantry"."documents" c where c."tenant_id" = $1::text and c."collection" = $2::text and (case jsonb_typeof((c."data" -> 'age')) when 'object' then coalesce((select k from jsonb_object_keys((c."data" -> 'age')) k where k = any('{$timestamp,$reference,$geoPoint,$bytes,$number,$vector}') and (c."data" -> 'age') - k = '{}'), 'object') else jsonb_typeof((c."data" -> 'age')) end = $3::text and (c."data" -> 'age') >= $4::jsonb or (c."data" -> 'age') = any($5::jsonb[])) and (c."data" -> 'owner' -> 'name') = $6::jsonb) end, '}}') from (select d.* from "tenantry"."documents" d where d."tenant_id" = $1::text and d."collection" = $2::text and (case jsonb_typeof((d."data" -> 'age')) when 'object' then coalesce((select k from jsonb_object_keys((d."data" -> 'age')) k where k = any('{$timestamp,$reference,$geoPoint,$bytes,$number,$vector}') and (d."data" -> 'age') - k = '{}'), 'object') else jsonb_typeof((d."data" -> 'age')) end = $3::text and (d."data" -> 'age') >= $4::jsonb or (d."data" -> 'age') = any($5::jsonb[])) and (d."data" -> 'owner' -> 'name') = $6::jsonb order by (d."data" -> 'age') desc, d."id" desc limit 20) r`,
    values: ['a', 'notes', 'number', '3', ['{"$number":"Infinity"}'], '"Ada"']
  },
  {
    name: 'a new document',
    query: { collection: 'notes', operation: 'create' },
    scope: { body: { a: 1 } },
    context: { excludeFields: ['secret'] },
    sql:
      raw`with w as (insert into "tenantry"."documents" as d (tenant_id, collection, id, data) values ($1::text, $2::text, gen_random_uuid()::text, $3::jsonb) returning ((d."data" || jsonb_build_object('id', d."id")) - $4::text[])::text as t) select case when octet_length(w.t) > 16777216 then width_bucket(0::float8, 0, 1, -octet_length(w.t))::text else w.t end from w`,
    values: ['a', 'notes', '{"a":1}', ['secret']]
  },
  {
    name: 'many new documents',
    query: { collection: 'notes', operation: 'add' },
    scope: { body: [{ a: 1 }] },
    sql:
      raw`with w as (insert into "tenantry"."documents" as d (tenant_id, collection, id, data) select $1::text, $2::text, gen_random_uuid()::text, e.value from jsonb_array_elements($3::jsonb) e returning d.id, d.data) select concat('{"data":', coalesce(json_agg((w."data" || jsonb_build_object('id', w."id")))::text, '[]'), '}') from w`,
    values: ['a', 'notes', '[{"a":1}]']
  },
  {
    name: 'a document that is replaced or created',
    query: { collection: 'notes', operation: 'set', docId: 'x' },
    scope: { body: { a: 1, id: 'x' } },
    sql:
      raw`with w as (insert into "tenantry"."documents" as d (tenant_id, collection, id, data) values ($1::text, $2::text, $3::text, $4::jsonb) on conflict (tenant_id, collection, id) do update set data = excluded.data, updated_at = now() returning (d."data" || jsonb_build_object('id', d."id"))::text as t) select case when octet_length(w.t) > 16777216 then width_bucket(0::float8, 0, 1, -octet_length(w.t))::text else w.t end from w`,
    values: ['a', 'notes', 'x', '{"a":1}']
  },
  {
    name: 'merged fields',
    query: { collection: 'notes', operation: 'update', docId: 'x' },
    scope: { body: { a: 1 } },
    sql:
      raw`with w as (update "tenantry"."documents" d set data = d.data || $4::jsonb, updated_at = now() where d."tenant_id" = $1::text and d."collection" = $2::text and d."id" = $3::text returning (d."data" || jsonb_build_object('id', d."id"))::text as t) select case when octet_length(w.t) > 16777216 then width_bucket(0::float8, 0, 1, -octet_length(w.t))::text else w.t end from w`,
    values: ['a', 'notes', 'x', '{"a":1}']
  },
  {
    name: 'a deleted document',
    query: { collection: 'notes', operation: 'delete', docId: 'x' },
    scope: {},
    sql:
      raw`delete from "tenantry"."documents" d where d."tenant_id" = $1::text and d."collection" = $2::text and d."id" = $3::text returning '{"success":true}'`,
    values: ['a', 'notes', 'x']
  }
]

test('each query is one statement', async t => {
  for (const { name, query, scope, context, sql, values } of [...reads, ...writes]) {
    const bound = compile(query, context).bind(scopeOf(scope))
    t.equal(withinBound(bound.statement.text), sql, name)
    const isBounded = query.operation !== 'delete' && !sql.startsWith('insert')
    t.equal(bound.statement.text.includes('octet_length'), isBounded, `${name}: with the size bound`)
    t.strictSame(bound.values, values, name)
  }
})

test('a statement that only reads says so', t => {
  const all = [
    ...[...reads, ...writes].map(({ name, query, scope, context }) => ({ name, scope, compiled: compile(query, context) })),
    ...documents.map(({ name, query, scope, context }) => ({ name, scope, compiled: compileDocument(query, context) }))
  ]
  for (const { name, scope, compiled } of all) {
    t.equal(compiled.bind(scopeOf(scope)).statement.isRead === true, !compiled.write, name)
  }
  t.end()
})

test('each document query is one statement', async t => {
  for (const { name, query, scope, context, sql, values } of documents) {
    const bound = compileDocument(query, context).bind(scopeOf(scope))
    t.equal(withinBound(bound.statement.text), sql, name)
    t.equal(bound.statement.text.includes('octet_length'), query.operation !== 'delete', `${name}: with the size bound`)
    t.strictSame(bound.values, values, name)
  }
})

test('the SQL text contains nothing from the caller', async t => {
  const hostile = 'hostile\' " ; --'
  for (const { name, query, context } of [...reads, ...writes]) {
    const member = (_: object, key: string | symbol): unknown => typeof key === 'string' ? hostile : undefined
    const anything = new Proxy({}, {
      get: member,
      getOwnPropertyDescriptor: (_, key) => ({ value: member(_, key), configurable: true, enumerable: true })
    })
    const body = { title: hostile, name: hostile, venue: hostile, note: hostile }
    try {
      const { statement } = compile(query, context).bind(
        scopeOf({ params: anything, body: query.table === 'articles' ? { title: hostile } : body, tenant: scopeTenant(hostile) })
      )
      t.notMatch(statement.text, 'hostile', name)
    } catch (error) {
      t.match(error, { code: 'TENANTRY_VALIDATION_FAILED' }, name)
    }
  }
})
