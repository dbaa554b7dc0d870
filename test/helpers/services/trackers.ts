/** Jira Cloud and GitHub: the endpoints that the connectors `issues` and `codehost` call. */
import type { Test } from 'tap'
import type { Remote } from '../remote.js'
import { type Call, jsonBody, objectSchema, type Reply, requireHeader, requireQuery, service } from './service.js'

const text = { type: 'string', minLength: 1 }
const texts = { type: 'array', items: text }

/** https://developer.atlassian.com/cloud/jira/platform/apis/document/structure: paragraphs with non-empty texts. */
const document = objectSchema({
  type: { const: 'doc' },
  version: { const: 1 },
  content: {
    type: 'array',
    minItems: 1,
    items: objectSchema({
      type: { const: 'paragraph' },
      content: { type: 'array', items: objectSchema({ type: { const: 'text' }, text }, ['type', 'text']) }
    }, ['type', 'content'])
  }
}, ['type', 'version', 'content'])

const fields = {
  summary: text,
  description: document,
  assignee: objectSchema({ accountId: text }, ['accountId']),
  priority: objectSchema({ name: text }, ['name']),
  labels: texts,
  parent: objectSchema({ key: text }, ['key']),
  customfield_10010: {}
}

/** https://developer.atlassian.com/cloud/jira/platform/rest/v3: basic auth, errors as `{errorMessages, errors}`. */
export async function jira (t: Test, email: string, token: string): Promise<Remote> {
  const refuse = (reason: string): Reply => ({ status: 400, json: { errorMessages: [reason], errors: {} } })
  const authorized = (call: Call) =>
    requireHeader(call, 'authorization', `Basic ${Buffer.from(`${email}:${token}`).toString('base64')}`, {
      status: 401,
      json: { errorMessages: ['Client must be authenticated to access this resource.'] }
    })
  return await service(t, {
    'POST /rest/api/3/issue': (call) => {
      authorized(call)
      jsonBody(
        call,
        objectSchema({
          fields: objectSchema({ project: objectSchema({ key: text }, ['key']), issuetype: objectSchema({ name: text }, ['name']), ...fields }, [
            'project',
            'issuetype',
            'summary'
          ])
        }, ['fields']),
        refuse
      )
      return { status: 201, json: { id: '10000', key: 'APP-24', self: 'https://x/rest/api/3/issue/10000' } }
    },
    'GET /rest/api/3/issue/:key': (call) => {
      authorized(call)
      requireQuery(call, ['fields', 'expand'], refuse)
      return { status: 200, json: { key: call.params['key'], fields: { summary: 'A bug' }, asked: call.query['fields'] } }
    },
    'PUT /rest/api/3/issue/:key': (call) => {
      authorized(call)
      requireQuery(call, ['notifyUsers'], refuse)
      jsonBody(call, objectSchema({ fields: objectSchema(fields) }, ['fields']), refuse)
      return { status: 204 }
    },
    'POST /rest/api/3/search/jql': (call) => {
      authorized(call)
      const body = jsonBody(
        call,
        objectSchema({ jql: text, fields: texts, maxResults: { type: 'integer' }, nextPageToken: text }, ['jql']),
        refuse
      )
      return { status: 200, json: { issues: [{ key: 'APP-1' }], isLast: true, asked: body['fields'] } }
    },
    'GET /rest/api/3/project/search': (call) => {
      authorized(call)
      requireQuery(call, ['query', 'startAt', 'maxResults'], refuse)
      return { status: 200, json: { values: [{ key: 'APP' }], startAt: Number(call.query['startAt'] ?? 0), isLast: true } }
    },
    'GET /rest/api/3/issue/:key/transitions': (call) => {
      authorized(call)
      return { status: 200, json: { transitions: [{ id: '31', name: 'Done' }] } }
    },
    'POST /rest/api/3/issue/:key/transitions': (call) => {
      authorized(call)
      jsonBody(
        call,
        objectSchema({
          transition: objectSchema({ id: text }, ['id']),
          update: objectSchema(
            { comment: { type: 'array', minItems: 1, items: objectSchema({ add: objectSchema({ body: document }, ['body']) }, ['add']) } },
            ['comment']
          ),
          fields: { type: 'object' }
        }, ['transition']),
        refuse
      )
      return { status: 204 }
    }
  })
}

/** https://docs.github.com/rest, version 2022-11-28: errors as `{message, documentation_url}`. */
export async function github (t: Test, token: string): Promise<Remote> {
  const refuse = (message: string): Reply => ({ status: 422, json: { message, documentation_url: 'https://docs.github.com/rest' } })
  const authorized = (call: Call) => {
    // GitHub refuses every request without a user agent.
    requireHeader(call, 'user-agent', /./, { status: 403, json: { message: 'Request forbidden by administrative rules.' } })
    requireHeader(call, 'authorization', `Bearer ${token}`, { status: 401, json: { message: 'Bad credentials' } })
    requireHeader(call, 'accept', 'application/vnd.github+json', { status: 415, json: { message: 'accept' } })
    requireHeader(call, 'x-github-api-version', '2022-11-28', refuse('version'))
  }
  return await service(t, {
    'GET /repos/:owner/:repo/issues': (call) => {
      authorized(call)
      requireQuery(call, ['state', 'labels', 'assignee', 'creator', 'since', 'sort', 'direction', 'per_page', 'page'], refuse)
      return { status: 200, json: [{ number: 1, state: call.query['state'], labels: call.query['labels'] }] }
    },
    'POST /repos/:owner/:repo/issues': (call) => {
      authorized(call)
      return {
        status: 201,
        json: {
          number: 2,
          ...jsonBody(
            call,
            objectSchema({ title: text, body: text, labels: texts, assignees: texts, milestone: { type: 'integer' } }, ['title']),
            refuse
          )
        }
      }
    },
    'GET /repos/:owner/:repo/issues/:number': (call) => {
      authorized(call)
      return { status: 200, json: { number: Number(call.params['number']), repository: `${call.params['owner']}/${call.params['repo']}` } }
    },
    'POST /repos/:owner/:repo/pulls': (call) => {
      authorized(call)
      return {
        status: 201,
        json: {
          number: 3,
          ...jsonBody(
            call,
            objectSchema({
              title: text,
              head: text,
              base: text,
              body: text,
              draft: { type: 'boolean' },
              maintainer_can_modify: { type: 'boolean' }
            }, ['head', 'base']),
            refuse
          )
        }
      }
    },
    'GET /repos/:owner/:repo/pulls/:number': (call) => {
      authorized(call)
      return { status: 200, json: { number: Number(call.params['number']), merged: false } }
    }
  })
}
