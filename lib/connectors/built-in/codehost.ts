/** GitHub's REST API, version 2022-11-28 (https://docs.github.com/rest). */
import { Type } from 'typebox'
import { ClosedObject } from '../../schema/annotations.js'
import type { ConnectorDefinition } from '../definition.js'
import { Count, Id, inSnakeCase, Optional, Text } from './params.js'

const repository = { owner: Id('The account that owns the repository.'), repo: Id('The name of the repository.') }
const number = Type.Union([Type.Integer({ minimum: 1, maximum: 2_147_483_647 }), Type.String({ pattern: '^[1-9][0-9]{0,9}$' })], {
  description: 'The number of the issue or pull request.'
})
const Names = (description: string, item: string) => Optional.Array(description, Text(item, 255), { maxItems: 100 })
const body = Optional.Text('The text, in Markdown.', 65_536)

export const codehost: ConnectorDefinition = {
  name: 'codehost',
  aliases: ['github'],
  baseUrl: "{{credentials.baseUrl || 'https://api.github.com'}}",
  secrets: ['token'],
  auth: { type: 'bearer', token: '{{credentials.token}}' },
  headers: { accept: 'application/vnd.github+json', 'x-github-api-version': '2022-11-28' },
  actions: {
    getIssue: {
      method: 'GET',
      path: '/repos/{{params.owner}}/{{params.repo}}/issues/{{params.number}}',
      params: ClosedObject({ ...repository, number })
    },
    createIssue: {
      method: 'POST',
      path: '/repos/{{params.owner}}/{{params.repo}}/issues',
      params: ClosedObject({
        ...repository,
        title: Text('The title.', 256),
        body,
        labels: Names('The labels.', 'The name of a label.'),
        assignees: Names('The assigned users.', 'The name of a user.'),
        milestone: Optional.Integer('The number of the milestone.', { minimum: 1 })
      }),
      body: inSnakeCase('title', 'body', 'labels', 'assignees', 'milestone')
    },
    listIssues: {
      method: 'GET',
      path: '/repos/{{params.owner}}/{{params.repo}}/issues',
      params: ClosedObject({
        ...repository,
        state: Optional.Enum('The state of the listed issues. Default: `open`.', ['open', 'closed', 'all']),
        labels: Optional.Text('The names of labels that the issue must have, separated by commas.'),
        assignee: Optional.Text('The name of the assigned user; `none` for unassigned issues, `*` for any user.', 255),
        creator: Optional.Text('The name of the user who opened the issue.', 255),
        since: Optional.Text('The earliest time of the last change, such as 2026-01-31T12:00:00Z.', 40),
        sort: Optional.Enum('The sort key. Default: `created`.', ['created', 'updated', 'comments']),
        direction: Optional.Enum('The sort direction. Default: `desc`.', ['asc', 'desc']),
        perPage: Count('The number of issues per page. Default: 30.', 100),
        page: Count('The number of the page. Default: 1.', 100_000)
      }),
      query: inSnakeCase('state', 'labels', 'assignee', 'creator', 'since', 'sort', 'direction', 'perPage', 'page')
    },
    createPullRequest: {
      method: 'POST',
      path: '/repos/{{params.owner}}/{{params.repo}}/pulls',
      params: ClosedObject({
        ...repository,
        title: Text('The title.', 256),
        head: Text('The branch with the changes; `user:branch` for another repository.', 255),
        base: Text('The branch to merge into.', 255),
        body,
        draft: Optional.Boolean('Create a draft. Default: false.'),
        maintainerCanModify: Optional.Boolean('Allow maintainers to change the branch.')
      }),
      body: inSnakeCase('title', 'head', 'base', 'body', 'draft', 'maintainerCanModify')
    },
    getPullRequest: {
      method: 'GET',
      path: '/repos/{{params.owner}}/{{params.repo}}/pulls/{{params.number}}',
      params: ClosedObject({ ...repository, number })
    }
  }
}
