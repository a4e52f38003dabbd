{% if guarded %}
TILEGEN_DEVICE {{ type_name }} load_{{ hint }}(const {{ type_name }}* from, bool inside) {
  return inside ? *from : {{ type_name }}{};
}
{% else %}
TILEGEN_DEVICE {{ type_name }} load_{{ hint }}(const {{ type_name }}* from) { return *from; }
{% endif %}
