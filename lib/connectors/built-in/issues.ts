/** Jira Cloud's REST API v3 (https://developer.atlassian.com/cloud/jira/platform/rest/v3). Long texts are Atlassian documents. */
import { Type } from 'typebox'
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Count, Id, Optional, Text } from './params.js'

const issueKey = Id('The key or id of the issue, such as `APP-12`.')
const LongText = (description: string) =>
  Optional.Union(`${description} A string becomes one paragraph; an Atlassian document is sent unchanged.`, [
    Type.String({ minLength: 1, maxLength: 32_767 }),
    Type.Object({ type: Type.Literal('doc') }, { additionalProperties: true })
  ])

const fields = {
  description: LongText('The description.'),
  assignee: Optional.Id('The account id of the assignee.'),
  priority: Optional.Text('The name of the priority.', 255),
  labels: Optional.Array('The labels.', Text('A label.', 255), { maxItems: 100 }),
  parent: Optional.Id('The key of the parent issue.'),
  fields: Optional.Map('Additional fields by their names at the service, such as `customfield_10010`.', Type.Unknown())
}

const writtenFields = {
  summary: '{{params.summary}}',
  description: '{{params.description}}',
  assignee: { accountId: '{{params.assignee}}' },
  priority: { name: '{{params.priority}}' },
  labels: '{{params.labels}}',
  parent: { key: '{{params.parent}}' },
  '...': '{{params.fields}}'
}

/** An expression that turns a text into a document of one paragraph. */
const asDocument = (path: string) =>
  `type(${path}) == string ? {'type': 'doc', 'version': 1, 'content': [{'type': 'paragraph', 'content': [{'type': 'text', 'text': ${path}}]}]} : ${path}`

export const issues: ConnectorDefinition = {
  name: 'issues',
  aliases: ['jira'],
  baseUrl: '{{credentials.baseUrl}}',
  secrets: ['apiToken'],
  auth: { type: 'basic', username: '{{credentials.email}}', password: '{{credentials.apiToken}}' },
  actions: {
    getIssue: {
      method: 'GET',
      path: '/rest/api/3/issue/{{params.issueKey}}',
      params: ClosedObject({
        issueKey,
        fields: Optional.Text('The fields in the response, separated by commas. Default: all.'),
        expand: Optional.Text('Additional parts of the response.', 500)
      }),
      query: { fields: '{{params.fields}}', expand: '{{params.expand}}' }
    },
    createIssue: {
      method: 'POST',
      path: '/rest/api/3/issue',
      params: ClosedObject({
        projectKey: Id('The key of the project.'),
        issueType: Type.Optional(Text('The name of the issue type. Default: `Task`.', 255)),
        summary: Text('The summary.', 255),
        ...fields
      }),
      compute: { description: asDocument('params.description') },
      body: {
        fields: { project: { key: '{{params.projectKey}}' }, issuetype: { name: "{{params.issueType || 'Task'}}" }, ...writtenFields }
      }
    },
    updateIssue: {
      method: 'PUT',
      path: '/rest/api/3/issue/{{params.issueKey}}',
      params: ClosedObject({
        issueKey,
        summary: Optional.Text('The summary.', 255),
        ...fields,
        notifyUsers: Optional.Boolean('If false, no notifications are sent. Default: true.')
      }),
      compute: { description: asDocument('params.description') },
      query: { notifyUsers: '{{params.notifyUsers}}' },
      body: { fields: writtenFields }
    },
    searchIssues: {
      method: 'POST',
      path: '/rest/api/3/search/jql',
      safe: true,
      params: ClosedObject({
        jql: Text('The query in JQL. It must have a condition, such as a project.', 10_000),
        fields: Optional.Array(
          'The returned fields of each issue. Default: the fields that can be shown in a list (`*navigable`).',
          Text('The name of a field.', 255),
          { minItems: 1, maxItems: 200 }
        ),
        maxResults: Optional.Integer('The number of issues per page. Default: 50.', { minimum: 1, maximum: 5000 }),
        nextPageToken: Optional.Text('The token of the next page from the previous response.', 4000)
      }),
      compute: { fields: "params.fields == null ? ['*navigable'] : params.fields" },
      body: {
        jql: '{{params.jql}}',
        fields: '{{params.fields}}',
        maxResults: '{{params.maxResults || 50}}',
        nextPageToken: '{{params.nextPageToken}}'
      }
    },
    getProjects: {
      method: 'GET',
      path: '/rest/api/3/project/search',
      params: ClosedObject({
        query: Optional.Text('Part of the name or key of the project.', 255),
        startAt: Optional.Integer('The number of skipped projects. Default: 0.', { minimum: 0, maximum: 1_000_000 }),
        maxResults: Count('The number of projects per page. Default: 50.', 100)
      }),
      query: { query: '{{params.query}}', startAt: '{{params.startAt}}', maxResults: '{{params.maxResults}}' }
    },
    getTransitions: {
      method: 'GET',
      path: '/rest/api/3/issue/{{params.issueKey}}/transitions',
      params: ClosedObject({ issueKey })
    },
    transitionIssue: {
      method: 'POST',
      path: '/rest/api/3/issue/{{params.issueKey}}/transitions',
      params: ClosedObject({
        issueKey,
        transitionId: Id('The id of the transition, as returned by `getTransitions`.'),
        comment: LongText('The text of the comment.'),
        fields: fields.fields
      }),
      compute: { comment: asDocument('params.comment') },
      body: {
        transition: { id: '{{params.transitionId}}' },
        update: { comment: [{ add: { body: '{{params.comment}}' } }] },
        fields: '{{params.fields}}'
      }
    }
  }
}
