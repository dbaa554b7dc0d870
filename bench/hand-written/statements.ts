/** The statements of the hand-written server. They have names, so PostgreSQL plans each once per connection. */
const columns = 'id, tenant_id, title, body, status, views, created_at'

export const statements = {
  read: { name: 'read', text: `select ${columns} from articles where tenant_id = $1 and id = $2` },
  list: { name: 'list', text: `select ${columns} from articles where tenant_id = $1 order by created_at desc, id limit $2 offset $3` },
  count: { name: 'count', text: 'select count(*)::int as total from articles where tenant_id = $1' },
  touch: { name: 'touch', text: `update articles set views = $3 where tenant_id = $1 and id = $2 returning ${columns}` },
  insert: {
    name: 'insert',
    text: `insert into articles (tenant_id, title, body, status, views) values ($1, $2, $3, $4, $5) returning ${columns}`
  }
}
