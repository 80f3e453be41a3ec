mod rules;
mod structural;
mod validate;
