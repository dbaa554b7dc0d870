/** A hand-written catalogue, so that queries' SQL is tested without a server; `schemaSql` creates the same tables. */
import type { Catalogue, Column, ForeignKey, Table } from '../../../lib/database/catalogue.js'

/** `name type`, with `!` for not null, `=` for a default, `@` for generated. */
export interface TableOptions {
  readonly primaryKey?: readonly string[]
  readonly uniqueKeys?: readonly (readonly string[])[]
  readonly foreignKeys?: readonly ForeignKey[]
  readonly view?: boolean
}

function column (definition: string): Column {
  const [, quoted, bare, type, flags = ''] = /^(?:"(.+?)"|(\S+)) ([^!=@(]+?)(?:\((?:.*)\))?([!=@]*)$/.exec(definition)!
  return {
    name: quoted ?? bare!,
    type: type!,
    notNull: flags.includes('!'),
    hasDefault: flags.includes('='),
    generated: flags.includes('@')
  }
}

export function table (name: string, definitions: readonly string[], options: TableOptions = {}): Table {
  const columns = new Map(definitions.map(column).map((each) => [each.name, each]))
  return {
    name,
    columns,
    primaryKey: options.primaryKey ?? (columns.has('id') && options.view !== true ? ['id'] : []),
    uniqueKeys: options.uniqueKeys ?? [],
    foreignKeys: options.foreignKeys ?? [],
    tenantScoped: columns.has('tenant_id'),
    softDelete: columns.get('deleted')?.type === 'boolean' && columns.has('deleted_at'),
    view: options.view ?? false
  }
}

export function catalogueOf (...tables: readonly Table[]): Catalogue {
  return { schema: 'public', tables: new Map(tables.map((each) => [each.name, each])) }
}

export function key (name: string, column: string, target: string): ForeignKey {
  const [referencedTable, referencedColumn] = target.split('.')
  return { name, columns: column.split('+'), referencedTable: referencedTable!, referencedColumns: referencedColumn!.split('+') }
}

const mood = { ...table('x', ['mood mood']).columns.get('mood')!, labels: ['calm', 'wild'] }

/** Tenants' articles with authors, reviews and tags; countries that all tenants share; names that need quotes. */
export function library (): Catalogue {
  const articles = table('articles', [
    'id uuid!=',
    'tenant_id text!',
    'title text!',
    'status text!=',
    'author_id uuid',
    'views integer!=',
    'rating numeric',
    'tags text[]',
    'meta jsonb',
    'published_at timestamp with time zone',
    'slug text',
    'featured boolean',
    'title_length integer@',
    'deleted boolean!=',
    'deleted_at timestamp with time zone'
  ], { uniqueKeys: [['tenant_id', 'slug']], foreignKeys: [key('articles_author_id_fkey', 'author_id', 'authors.id')] })
  const columns = new Map([...articles.columns, ['mood', mood]])
  return catalogueOf(
    { ...articles, columns },
    table('authors', ['id uuid!=', 'tenant_id text!', 'name text!', 'email text', 'country_code text', 'mentor_id uuid'], {
      foreignKeys: [
        key('authors_country_code_fkey', 'country_code', 'countries.code'),
        key('authors_mentor_id_fkey', 'mentor_id', 'authors.id')
      ]
    }),
    table('reviews', [
      'id bigint!=',
      'tenant_id text!',
      'article_id uuid!',
      'author_id uuid',
      'editor_id uuid',
      'stars integer!',
      'note text',
      'deleted boolean',
      'deleted_at timestamp with time zone'
    ], {
      foreignKeys: [
        key('reviews_article_id_fkey', 'article_id', 'articles.id'),
        key('reviews_author_id_fkey', 'author_id', 'authors.id'),
        key('reviews_editor_id_fkey', 'editor_id', 'authors.id')
      ]
    }),
    table('profiles', ['author_id uuid!', 'tenant_id text!', 'bio text'], {
      primaryKey: ['author_id'],
      foreignKeys: [key('profiles_author_id_fkey', 'author_id', 'authors.id')]
    }),
    table('labels', ['id integer!', 'tenant_id text!', 'name text!']),
    table('article_labels', ['tenant_id text!', 'article_id uuid!', 'label_id integer!'], {
      primaryKey: ['tenant_id', 'article_id', 'label_id'],
      foreignKeys: [
        key('article_labels_article_id_fkey', 'article_id', 'articles.id'),
        key('article_labels_label_id_fkey', 'label_id', 'labels.id')
      ]
    }),
    table('desks', ['id integer!', 'floor text!', 'tenant_id text@']),
    table('countries', ['code text!', 'name text!'], { primaryKey: ['code'] }),
    table('seats', ['venue text!', 'number integer!', 'holder text'], { primaryKey: ['venue', 'number'] }),
    table('we"ird', ['id integer!', '"na"me" text', 'r text', 'select text']),
    table('article_titles', ['id uuid', 'tenant_id text', 'title text'], { view: true })
  )
}

/** The SQL of `library`. */
export const librarySql = `
create type mood as enum ('calm', 'wild');
create table countries (code text primary key, name text not null);
create table authors (id uuid primary key default gen_random_uuid(), tenant_id text not null, name text not null, email text, country_code text references countries, mentor_id uuid references authors);
create table articles (
  id uuid primary key default gen_random_uuid(), tenant_id text not null, title text not null, status text not null default 'draft', author_id uuid references authors,
  views integer not null default 0, rating numeric check (rating <= 5), tags text[], meta jsonb, published_at timestamptz, slug text, featured boolean,
  title_length integer generated always as (length(title)) stored, deleted boolean not null default false, deleted_at timestamptz, mood mood, unique (tenant_id, slug)
);
create table reviews (
  id bigint generated by default as identity primary key, tenant_id text not null, article_id uuid not null references articles on delete cascade,
  author_id uuid references authors, editor_id uuid references authors, stars integer not null, note text, deleted boolean default false, deleted_at timestamptz
);
create table profiles (author_id uuid primary key references authors, tenant_id text not null, bio text);
create table desks (id integer primary key, floor text not null, tenant_id text generated always as (floor) stored);
create table labels (id integer primary key, tenant_id text not null, name text not null);
create table article_labels (tenant_id text not null, article_id uuid not null references articles, label_id integer not null references labels, primary key (tenant_id, article_id, label_id));
create table seats (venue text not null, number integer not null, holder text, primary key (venue, number));
create table "we""ird" (id integer primary key, "na""me" text, r text, "select" text);
create view article_titles as select id, tenant_id, title from articles;
`
