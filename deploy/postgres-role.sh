#!/bin/sh
# Run once by the image of PostgreSQL when its volume is empty. The role is no superuser: row-level security, the second
# wall between tenants, does not stop one.
set -eu

psql --set ON_ERROR_STOP=1 --set password="$TURNFOLD_DB_PASSWORD" --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
CREATE ROLE turnfold LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE PASSWORD :'password';
CREATE DATABASE turnfold OWNER turnfold ENCODING 'UTF8' TEMPLATE template0;
SQL
