#!/bin/sh
# Creates the server's role and database; the postgres image runs it once, when its volume is empty. The role is an ordinary one:
# a superuser, as the image's own role is, bypasses row-level security, and the server refuses to start with it.
psql --username postgres --set ON_ERROR_STOP=1 --set password="$DATABASE_PASSWORD" <<'SQL'
create role tenantry login password :'password';
create database tenantry owner tenantry;
SQL
